# SPDX-License-Identifier: Apache-2.0
"""Manifests as files of this machine, with the modules that they name here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamapp.errors import InputError
from streamapp.manifest import Manifest, parse_manifest, parse_object


def read_text(file: Path) -> str:
    """The text of a file, or of stdin for `-`.

    Raises:
        InputError: when it cannot be read.
    """
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None


def read_manifest(file: Path) -> Manifest:
    """The manifest as it stands in the file.

    Raises:
        InputError, ManifestError: when it cannot be read, or with everything that is wrong with it.
    """
    return parse_manifest(read_text(file), str(file))


def load_manifest(file: Path) -> Manifest:
    """The manifest of a file; where its `code` names a path, with the modules that are there in its place.

    Raises:
        InputError, ManifestError: when one of them cannot be read, or with everything that is wrong with it.
    """
    field = f"{file}: code.path"
    return parse_manifest(read_text(file), str(file), lambda path: _modules(file.parent / path, field))


def manifest_here(data: Mapping[str, Any]) -> Manifest:
    """The manifest of plain data, with the modules that its `code` names by a path from the current folder.

    Raises:
        InputError, ManifestError: when a module cannot be read, or with everything that is wrong with it.
    """
    return parse_object(data, lambda path: _modules(Path(path), "code.path"))


def require_modules(manifest: Manifest, file: Path) -> None:
    """
    Raises:
        InputError: when only a cluster knows the modules of its functions.
    """
    code = manifest.spec.code
    if code is not None and code.files is None and code.config_map_ref is not None:
        raise InputError(
            f"{file}: the modules of `code` are in ConfigMap '{code.config_map_ref.name}', which only a cluster has; "
            "for this machine, add `path` to `code`, with the folder they are in"
        )


def _modules(place: Path, field: str) -> dict[str, str]:
    """File name to text of a module, or of all that are in a folder."""
    if not place.exists():
        raise InputError(f"{field}: there is no '{place}'; name a Python file, or a folder of them")
    files = sorted(place.glob("*.py")) if place.is_dir() else [place]
    if not files:
        raise InputError(f"{field}: there is no Python file in '{place}'")
    return {file.name: read_text(file) for file in files}
