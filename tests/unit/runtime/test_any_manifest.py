# SPDX-License-Identifier: Apache-2.0

"""Whatever is written, the answer is a plan or a list of problems, and it does not depend on the order of maps."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from streamapp.compile import compile_manifest
from streamapp.describe import explain_json, explain_mermaid, explain_text
from streamapp.errors import ManifestError
from streamapp.manifest import parse_manifest, parse_object
from streamapp.manifest.node import NOT_YET, OPERATIONS

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
WORDS = [
    "a",
    "b",
    "c",
    "value",
    "key",
    "count(*)",
    "rand()",
    "a.value",
    "text",
    "json",
    "5s",
    "t1",
    "t2",
    "",
    "__x",
    "yes",
]

leaf = st.sampled_from(WORDS) | st.integers(-1, 3) | st.booleans() | st.none() | st.text(max_size=5)
inner = st.recursive(
    leaf,
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *WORDS,
                    "topic",
                    "within",
                    "with",
                    "by",
                    "select",
                    "name",
                    "when",
                    "tumbling",
                    "hopping",
                    "every",
                    "format",
                    "schema",
                ]
            ),
            inside,
            max_size=3,
        )
    ),
    max_leaves=6,
)
node = st.dictionaries(
    st.sampled_from(
        [
            *OPERATIONS,
            *NOT_YET["node"],
            "name",
            "from",
            "aggregate",
            "window",
            "grace",
            "emit",
            "store",
            "odd",
        ]
    ),
    inner,
    max_size=5,
)
# Mostly sensible nodes, so that they reach each other.
good = st.one_of(
    st.builds(lambda n, t: {"name": n, "stream": {"topic": t}}, st.sampled_from("abc"), st.sampled_from(["t1", "t2"])),
    st.builds(
        lambda n, f: {"name": n, "from": f, "filter": "value > 1"}, st.sampled_from("abcdef"), st.sampled_from("abcdef")
    ),
    st.builds(
        lambda n, f: {"name": n, "from": f, "with": {"v": "rand()"}},
        st.sampled_from("abcdef"),
        st.sampled_from("abcdef"),
    ),
    st.builds(
        lambda n, f: {"name": n, "merge": [*f]},
        st.sampled_from("abcdef"),
        st.sets(st.sampled_from("abcdef"), max_size=3),
    ),
    st.builds(
        lambda n, f: {"name": n, "from": f, "groupBy": ["value"], "aggregate": {"n": "count(*)"}},
        st.sampled_from("abcdef"),
        st.sampled_from("abcdef"),
    ),
    st.builds(
        lambda n, f, w: {"name": n, "from": f, "join": {"with": w, "within": "5s", "select": {"value": f"{w}.value"}}},
        st.sampled_from("def"),
        st.sampled_from("abcdef"),
        st.sampled_from("abcdef"),
    ),
    st.builds(
        lambda n, f: {"name": n, "from": f, "to": {"topic": "o" + n}}, st.sampled_from("xyz"), st.sampled_from("abcdef")
    ),
)


def outcome(data: Any) -> str | None:
    try:
        plan = compile_manifest(parse_object(data))
    except ManifestError as error:
        lines = [str(problem) for problem in error.problems]
        if not lines or any("\n" in line or not line.strip() for line in lines):
            raise AssertionError(f"not one clear line each: {lines}") from error
        return None
    for show in (explain_text, explain_mermaid, explain_json):
        assert show(plan)
    return plan.to_json()


@given(
    st.lists(node | good | inner, max_size=6),
    st.dictionaries(st.sampled_from(["replicas", "run", "kafka", "onBadRecord"]), inner),
)
@settings(max_examples=300)
def test_any_nodes(nodes: list[Any], spec: dict[str, Any]) -> None:
    outcome(
        {
            "apiVersion": "streamapp.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "a"},
            "spec": {**spec, "topology": nodes},
        }
    )


@given(st.lists(good, min_size=2, max_size=9))
@settings(max_examples=300)
def test_nodes_that_fit_together(nodes: list[Any]) -> None:
    """Also checks: every sub-topology has at most one stateful node, and every input inside it."""
    data = {
        "apiVersion": "streamapp.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "a"},
        "spec": {"topology": nodes},
    }
    try:
        plan = compile_manifest(parse_object(data))
    except ManifestError:
        return
    for part in plan.subtopologies:
        names = {n.name for n in part.nodes}
        assert tuple(n.name for n in part.nodes if n.keyed) == part.stateful
        assert all(set(n.inputs) <= names for n in part.nodes)
        assert part.topology.nodes == part.nodes
    assert len({part.name for part in plan.subtopologies}) == len(plan.subtopologies)
    assert len({topic.name for topic in plan.topics}) == len(plan.topics)


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    with pytest.raises(ManifestError):
        parse_manifest(text)


def shuffled(value: Any, seed: random.Random) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        seed.shuffle(items)
        return {key: shuffled(item, seed) for key, item in items}
    return [shuffled(item, seed) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_order_of_maps_means_nothing(file: Path) -> None:
    data = yaml.safe_load(file.read_text())
    plans = {outcome(shuffled(data, random.Random(seed))) for seed in range(5)}
    assert len(plans) == 1
    assert None not in plans
