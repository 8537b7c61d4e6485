# SPDX-License-Identifier: Apache-2.0
"""Certificates that tests need, by openssl."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path


def openssl(folder: Path, *words: str) -> str:
    """Runs openssl in that folder; returns its output."""
    done = subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60, text=True)
    return done.stdout


def sign(folder: Path, name: str, extensions: Iterable[str], authority: str, days: int, suffix: str) -> None:
    """Makes the certificate that NAME.csr asks for, in NAME and the suffix.

    Args:
        folder: the folder of all files.
        extensions: those of the certificate, a line each.
        authority: the name of the signer, whose key is NAME.key and whose certificate has the same suffix.
        days: how long it is valid; with -1, it has expired.
        suffix: the suffix of files with certificates.
    """
    (folder / f"{name}.ext").write_text("\n".join(extensions) + "\n")
    asked = ("-in", f"{name}.csr", "-extfile", f"{name}.ext", "-days", str(days))
    signer = ("-CA", f"{authority}{suffix}", "-CAkey", f"{authority}.key", "-CAcreateserial")
    openssl(folder, "x509", "-req", *asked, *signer, "-out", f"{name}{suffix}")
