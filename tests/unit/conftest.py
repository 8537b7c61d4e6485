# SPDX-License-Identifier: Apache-2.0
"""Short ways to write a manifest and to get its mistakes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from streamapp.compile import compile_manifest
from streamapp.errors import ManifestError
from streamapp.manifest import parse_manifest
from streamapp.plan import Plan

HEAD = "apiVersion: streamapp.dev/v1alpha1\nkind: StreamApp\nmetadata: {name: app}\nspec:\n"

Text = Callable[..., str]
Compile = Callable[..., Plan]
Problems = Callable[..., list[str]]


def _text(topology: str, spec: str = "") -> str:
    body = textwrap.indent(textwrap.dedent(spec).strip("\n"), "  ")
    nodes = textwrap.indent(textwrap.dedent(topology).strip("\n"), "  ")
    return HEAD + (body + "\n" if body.strip() else "") + "  topology:\n" + nodes + "\n"


@pytest.fixture
def text() -> Text:
    """Returns `text(topology, spec="")`: a manifest's text from the YAML of its nodes and of further settings."""
    return _text


@pytest.fixture
def plan() -> Compile:
    """Returns `plan(topology, spec="")`: the compiled plan."""
    return lambda topology, spec="": compile_manifest(parse_manifest(_text(topology, spec)))


@pytest.fixture
def problems() -> Problems:
    """Returns `problems(topology, spec="")`: all mistakes, one line each, without the line's number."""

    def find(topology: str, spec: str = "") -> list[str]:
        try:
            compile_manifest(parse_manifest(_text(topology, spec)))
        except ManifestError as error:
            return [str(problem).rsplit(" (line ", 1)[0] for problem in error.problems]
        return []

    return find
