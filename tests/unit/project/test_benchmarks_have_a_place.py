# SPDX-License-Identifier: Apache-2.0
"""Each benchmark writes its table into the page: one without a place there would end `make bench` half way."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]


def names() -> list[str]:
    """The names of all benchmarks: the keys of BENCHMARKS. An import of the module would run them."""
    tree = ast.parse((ROOT / "benchmarks" / "__main__.py").read_text())
    (table,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
    )
    assert isinstance(table, ast.Dict)
    return [key.value for key in table.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def test_each_benchmark_has_a_place_in_the_page() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    found = names()
    assert "word-count" in found
    assert [name for name in found if f"<!-- {name} -->" not in page or f"<!-- /{name} -->" not in page] == []
