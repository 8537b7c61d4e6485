# SPDX-License-Identifier: Apache-2.0
"""Nothing of an operation is forgotten: a check or none on purpose, a visitor, words, a case, a place in the manual."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamapp import nodes as n
from streamapp import operations
from streamapp.builder import Flow, StreamBuilder
from streamapp.compile import compile_manifest
from streamapp.describe import words
from streamapp.manifest import parse_manifest
from streamapp.manifest.node import OPERATIONS
from streamapp.plan.codec import NODE_CLASSES
from streamapp.spark.visitor import Visitor

CLASSES = [cls for cls in NODE_CLASSES.values() if cls is not n.Broken]  # which is never run

UNCHECKED = (  # which the passes make
    n.RepartitionSource,
    n.RepartitionSink,
    n.MovesSource,
    n.DeadLetter,
    n.LateRecords,
    operations.ForeignResults,
)
REPLACED = (operations.ForeignKeyJoin,)  # by other nodes, before anything is visited


@pytest.fixture(scope="module")
def described(root: Path) -> dict[type[n.Node], str]:
    """What is said of a node of each class that the golden manifests have."""
    found: dict[type[n.Node], str] = {}
    for file in (root / "tests" / "golden" / "manifests").glob("*.yaml"):
        for part in compile_manifest(parse_manifest(file.read_text())).subtopologies:
            found |= {type(node): words.details(node, part.topology) for node in part.nodes}
    return found


@pytest.mark.parametrize("cls", CLASSES)
def test_it_has_all_its_parts(cls: type[n.Node], described: dict[type[n.Node], str], root: Path) -> None:
    assert (cls.check is not n.Node.check) != (cls in UNCHECKED), "a check, or none on purpose"
    # Of what the passes put in an operation's place, its own class says the state.
    keeps = cls.stores is not n.Node.stores and cls is not operations.ForeignResults
    assert not keeps or cls.state_shape is not n.Node.state_shape, "the shape of its state"
    assert hasattr(Visitor, "visit_" + cls.__name__.lower()) != (cls in REPLACED), "a visitor"
    assert described.get(cls) or cls in REPLACED, "a node in a golden manifest, with a description"
    if cls.operation in OPERATIONS:
        assert f"`{cls.operation}`" in (root / "docs" / "manifest.md").read_text(), "a place in the manual"


def test_each_operation_of_the_manifest_is_a_class() -> None:
    """A branch is two: where the records are split, and each of its arms. A join is of two streams, or with a table."""
    ours = {"?", "when", "table join", "hop in", "hop out", "moves in", "dead letters", "late"}
    ours |= {"join by a foreign key", "foreign-key join", "foreign-key results"}
    assert {cls.operation for cls in NODE_CLASSES.values()} - ours == set(OPERATIONS)


def test_each_operation_is_a_method_of_the_builder() -> None:
    """It is written beside the operation."""
    bases = {base.__module__ for kind in (StreamBuilder, Flow) for base in kind.__mro__}
    assert {cls.__module__ for cls in operations.OPERATIONS} - bases == set()
