# SPDX-License-Identifier: Apache-2.0
"""A manifest has its limits, the same on a laptop as on a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from streamapp.errors import ManifestError
from streamapp.fields import MOST_COLUMNS
from streamapp.manifest import parse_manifest
from streamapp.manifest.reading import MOST_ENTRIES, MOST_NODES
from streamapp.manifest.text import MOST_BYTES
from streamapp.operations.branch import MOST_BRANCHES
from streamapp.operations.stream import MOST_TOPICS

HEAD = "apiVersion: streamapp.dev/v1alpha1\nkind: StreamApp\nmetadata: {name: app}\nspec:\n  topology:\n"
IN = "  - {name: in, stream: {topic: i, value: text}}\n"
OUT = "  - {name: out, to: {topic: o}}\n"


def chain(count: int) -> str:
    nodes = "".join(f"  - {{name: n{i}, filter: value > '{i}'}}\n" for i in range(count - 2))
    return HEAD + IN + nodes + OUT


def topics(count: int) -> str:
    names = ", ".join(f"t{i}" for i in range(count))
    return HEAD + f"  - {{name: in, stream: {{topics: [{names}], value: text}}}}\n" + OUT


def columns(count: int) -> str:
    made = ", ".join(f"c{i}: value" for i in range(count))
    return HEAD + IN + f"  - {{name: made, with: {{{made}}}}}\n" + OUT


def branches(count: int) -> str:
    arms = ", ".join(f"{{name: b{i}, when: value > '{i}'}}" for i in range(count))
    return HEAD + IN + f"  - {{name: parts, branch: [{arms}]}}\n  - {{name: out, from: b0, to: {{topic: o}}}}\n"


@pytest.mark.parametrize(
    ("make", "most"),
    [(chain, MOST_NODES), (topics, MOST_TOPICS), (columns, MOST_COLUMNS), (branches, MOST_BRANCHES)],
)
def test_as_many_are_taken_and_no_more(make, most) -> None:  # type: ignore[no-untyped-def]
    parse_manifest(make(most))
    with pytest.raises(ManifestError) as refused:
        parse_manifest(make(most + 1))
    (problem,) = refused.value.problems
    assert f"{most + 1:,} entries" in problem.message.replace(f"{most + 1} ", f"{most + 1:,} ")
    assert problem.fix is not None
    assert f"at most {most}" in problem.fix.replace(",", "")


def test_columns_of_all_nodes_have_a_limit_together() -> None:
    made = ", ".join(f"c{i}: value" for i in range(MOST_COLUMNS))
    nodes = "".join(f"  - {{name: n{i}, select: {{{made}}}}}\n" for i in range(MOST_ENTRIES // MOST_COLUMNS))
    with pytest.raises(ManifestError, match=r"has nodes with 5,017 entries; 5,000 are the most; make several apps"):
        parse_manifest(HEAD + IN + nodes + OUT)


def test_of_very_many_problems_the_first_are_told() -> None:
    made = ", ".join(f"c{i}: none{i}" for i in range(MOST_COLUMNS))
    nodes = "".join(f"  - {{name: n{i}, with: {{{made}}}}}\n" for i in range(4))
    with pytest.raises(ManifestError) as refused:
        parse_manifest(HEAD + IN + nodes + OUT)
    assert len(refused.value.problems) == 1000
    assert all("unknown column" in problem.message for problem in refused.value.problems)


def test_a_schema_has_a_limit() -> None:
    fields = ", ".join(f"column_{i} STRING" for i in range(2_000))
    value = f"{{format: json, schema: '{fields}'}}"
    with pytest.raises(ManifestError, match="characters, and 32,768 are the most"):
        parse_manifest(f"{HEAD}  - {{name: in, stream: {{topic: i, value: {value}}}}}\n{OUT}")


def test_a_text_that_is_too_long_is_not_read() -> None:
    with pytest.raises(ManifestError, match="1,048,576"):
        parse_manifest("[" * (MOST_BYTES + 1))


def test_the_definition_has_the_same_limits() -> None:
    found = yaml.safe_load((Path(__file__).parents[3] / "crds" / "streamapp.yaml").read_text())
    nodes = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["topology"]
    node = nodes["items"]["properties"]
    assert nodes["maxItems"] == MOST_NODES
    assert node["branch"]["maxItems"] == MOST_BRANCHES
    assert node["stream"]["properties"]["topics"]["maxItems"] == MOST_TOPICS
    assert node["with"]["maxProperties"] == MOST_COLUMNS
