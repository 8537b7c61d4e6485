# SPDX-License-Identifier: Apache-2.0
"""The manual's examples work, and it leaves nothing out."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamapp.compile import compile_manifest
from streamapp.compile.unused import leads_nowhere
from streamapp.formats import AVAILABLE
from streamapp.manifest import parse_manifest
from streamapp.manifest.model import Spec
from streamapp.manifest.node import OPERATIONS
from streamapp_operator.crd import resource_schema
from streamapp_operator.crd.reference import reference, status_reference

FILE = Path(__file__).parents[3] / "docs" / "manifest.md"
MANUAL = FILE.read_text(encoding="utf-8")
BEGIN, END = "<!-- all fields, from the model -->\n", "<!-- end of all fields -->"
STATUS, STATUS_BEGIN = FILE.parent / "kubernetes" / "status.md", "<!-- all fields, from the definition -->\n"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", MANUAL, re.DOTALL)


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "yaml"])
def test_manifests_of_the_manual(text: str) -> None:
    manifest = parse_manifest(text)
    assert compile_manifest(manifest).subtopologies
    assert leads_nowhere(manifest) == ()


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


@pytest.mark.parametrize(
    ("file", "begin", "table"),
    [(FILE, BEGIN, reference), (STATUS, STATUS_BEGIN, status_reference)],
    ids=["spec", "status"],
)
def test_every_field_of_the_definition_is_in_the_table(
    request: pytest.FixtureRequest, file: Path, begin: str, table: Callable[[dict[str, Any]], str]
) -> None:
    """The table has the texts of `kubectl explain`. With --rewrite-golden the table is written anew."""
    before, rest = file.read_text(encoding="utf-8").split(begin)
    found, after = rest.split(END)
    made = f"\n{table(resource_schema())}\n"
    if request.config.getoption("--rewrite-golden"):
        file.write_text(before + begin + made + END + after, encoding="utf-8")
        found = made
    assert found == made


def test_a_field_that_is_missing_in_the_table_is_noticed() -> None:
    schema = resource_schema()
    schema["properties"]["spec"]["properties"]["unheardOf"] = {"type": "string", "description": "New."}
    assert "| `unheardOf` | text |  | New. |" in reference(schema).splitlines()
    assert reference(schema) not in MANUAL


def test_status_has_a_table_without_defaults() -> None:
    lines = status_reference(resource_schema()).splitlines()
    assert "| `desiredReplicas` | whole number | Executors that are wanted. |" in lines
    assert any(line.startswith("| `conditions[].lastTransitionTime` | time, in UTC |") for line in lines)
    assert {line.count(" | ") for line in lines[2:]} == {2}


def test_the_page_about_nexmark_has_all_queries() -> None:
    page = (FILE.parent / "nexmark.md").read_text(encoding="utf-8")
    queries = {file.stem for file in (FILE.parents[1] / "examples" / "nexmark").glob("*.yaml")}
    of_nexmark = [f"q{number}" for number in range(23)]
    said = {query for query in of_nexmark if f"| [{query}](../examples/nexmark/{query}.yaml) " in page}
    assert said == queries
    assert f"**{len(queries)} of its {len(of_nexmark)}**" in page
