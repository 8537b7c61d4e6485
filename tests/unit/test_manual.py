# SPDX-License-Identifier: Apache-2.0
"""The manual's examples work, and it leaves nothing out."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from streamapp.compile import compile_manifest
from streamapp.formats import AVAILABLE
from streamapp.manifest import parse_manifest
from streamapp.manifest.model import Spec
from streamapp.manifest.node import OPERATIONS

MANUAL = (Path(__file__).parents[2] / "docs" / "manifest.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", MANUAL, re.DOTALL)


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "yaml"])
def test_manifests_of_the_manual(text: str) -> None:
    assert compile_manifest(parse_manifest(text)).subtopologies


@pytest.mark.parametrize("code", [text for kind, text in BLOCKS if kind == "python"])
def test_python_of_the_manual(code: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "manual", "exec"), {})
    assert compile_manifest(parse_manifest(printed.getvalue())).subtopologies


def test_every_setting_operation_and_format_is_there() -> None:
    settings = [info.alias or name for name, info in Spec.model_fields.items() if name != "standby_replicas"]
    missing = [word for word in (*settings, *OPERATIONS, *AVAILABLE) if f"`{word}" not in MANUAL]
    assert missing == []
