# SPDX-License-Identifier: Apache-2.0
"""Every operation is complete: a check or none on purpose, a visitor, words, a case, a place in the manual."""

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

NEVER_RUN = (n.Broken, operations.ForeignKeyJoin, operations.Cogroup)  # from these a pass makes others
CLASSES = [cls for cls in NODE_CLASSES.values() if cls not in NEVER_RUN]

UNCHECKED = (  # which the passes make
    n.RepartitionSource,
    n.MovesSource,
    n.RepartitionSink,
    n.DeadLetter,
    n.LateRecords,
    operations.ForeignResults,
    operations.CogroupedRecords,
)
SHAPED_BY_ITS_JOIN = operations.ForeignResults


@pytest.fixture(scope="module")
def described(root: Path) -> dict[type[n.Node], str]:
    """The description of a node of each class in the golden manifests."""
    found: dict[type[n.Node], str] = {}
    for file in (root / "tests" / "golden" / "manifests").glob("*.yaml"):
        for part in compile_manifest(parse_manifest(file.read_text())).subtopologies:
            found |= {type(node): words.details(node, part.topology) for node in part.nodes}
    return found


@pytest.mark.parametrize("cls", CLASSES)
def test_it_has_all_its_parts(cls: type[n.Node], described: dict[type[n.Node], str], root: Path) -> None:
    assert (cls.check is not n.Node.check) != (cls in UNCHECKED), "a check, or none on purpose"
    keeps = cls.stores is not n.Node.stores and cls is not SHAPED_BY_ITS_JOIN
    assert not keeps or cls.state_shape is not n.Node.state_shape, "the shape of its state"
    assert hasattr(Visitor, "visit_" + cls.__name__.lower()), "a visitor"
    assert described.get(cls), "a node in a golden manifest, with a description"
    if cls.operation in OPERATIONS:
        assert f"`{cls.operation}`" in (root / "docs" / "manifest.md").read_text(), "a place in the manual"


def test_each_operation_of_the_manifest_is_a_class() -> None:
    """A branch has two classes: one where the records are split, and one for each of its arms. A join is of two
    streams, with a table by its key or by other columns, or of a table with the rows that it names. A cogroup is a
    groupBy of several streams."""
    joins = {"table join", "lookup by columns", "join by a foreign key", "foreign-key join", "foreign-key results"}
    cogroups = {"cogroup", "cogrouped records"}
    ours = {"?", "when", "hop in", "moves in", "hop out", "dead letters", "late", *joins, *cogroups}
    assert {cls.operation for cls in NODE_CLASSES.values()} - ours == set(OPERATIONS)


def test_each_operation_is_a_method_of_the_builder() -> None:
    """The method is in the operation's file."""
    bases = {base.__module__ for kind in (StreamBuilder, Flow) for base in kind.__mro__}
    assert {cls.__module__ for cls in operations.OPERATIONS} - bases == set()
