# SPDX-License-Identifier: Apache-2.0
"""From a file named on the command line to a manifest and its plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamapp.errors import InputError

if TYPE_CHECKING:
    from streamapp.manifest import Manifest
    from streamapp.plan import Plan


def read_text(file: Path) -> str:
    """The text of a file, or of stdin for `-`."""
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None


def load_manifest(file: Path) -> Manifest:
    from streamapp.manifest import parse_manifest

    return parse_manifest(read_text(file), str(file))


def load_plan(file: Path) -> Plan:
    from streamapp.compile import compile_manifest

    return compile_manifest(load_manifest(file))
