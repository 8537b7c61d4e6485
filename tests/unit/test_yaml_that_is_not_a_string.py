# SPDX-License-Identifier: Apache-2.0
"""YAML reads some words as something else; a cluster does too. The error shows what to write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamapp.errors import ManifestError
from streamapp.manifest import parse_manifest

SOURCE = "- {name: in, stream: {topic: t}}\n"


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("yes", "true"),
        ("no", "false"),
        ("on", "true"),
        ("Off", "false"),
        ("true", "true"),
        ("1:30", "the number 90"),
        ("2024-01-31", "the date 2024-01-31"),
        ("12", "the number 12"),
        ("1.50", "the number 1.5"),
        ("null", "nothing"),
        ("~", "nothing"),
    ],
)
def test_the_quoted_form_is_shown(problems: Callable[..., list[str]], written: str, read_as: str) -> None:
    (problem,) = problems(SOURCE + f"- {{name: kept, filter: {written}}}")
    assert f"`{written}` is read by YAML as {read_as}" in problem
    assert problem.endswith(f"write it in quotes: '{written}'")


def test_keys_and_names_are_strings_too(problems: Callable[..., list[str]]) -> None:
    assert problems("- {name: yes, stream: {topic: t}}\n- {name: out, from: 'yes', select: {on: value}}") == [
        "node '#1': `name`: `yes` is read by YAML as true, and a string is needed; write it in quotes: 'yes'",
        "node 'out': `select.on`: the key `on` is read by YAML as true; write it in quotes: 'on'",
    ]


def test_the_line_is_named(text: Callable[..., str]) -> None:
    with pytest.raises(ManifestError) as error:
        parse_manifest(text(SOURCE + "- name: kept\n  filter: on\n- {name: o, to: {topic: u}}"))
    assert [problem.line for problem in error.value.problems] == [8]


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("", "the manifest is empty"),
        ("# only a comment", "the manifest is empty"),
        ("a: [1, 2", "is not YAML"),
        ("a:\n\t- b", "write spaces instead of tabs"),
        ("- a", "a manifest is a map"),
        ("just text", "a manifest is a map"),
        ("a: 1\n---\nb: 2", "several documents"),
        ("a: &x {b: *x}", "holds itself by an alias"),
        ("a: !!python/object:os.system {}", "tag `!!python/object:os.system` cannot be used"),
        ("base: &b {x: 1}\na: {<<: *b}", "merge keys"),
        ("a: 1\na: 2", "the key `a` is there twice"),
        ("? [1, 2]\n: x", "a key is a map or a list"),
        ("a: " + "[" * 3000, "is"),
        ("\ud800", "is not YAML"),
        ("a: \x00", "is not YAML"),
        ("0x: 1\n", "is missing"),
        ("a: 99999-99-99", "is missing"),
        ("a: 2024-13-45", "is missing"),
    ],
)
def test_text_that_is_no_manifest_is_refused_clearly(manifest: str, said: str) -> None:
    with pytest.raises(ManifestError) as error:
        parse_manifest(manifest)
    assert said in str(error.value)


def test_aliases_cannot_make_a_small_text_large() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    for i in range(1, 12):
        bomb += f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 9) + "]\n"
    with pytest.raises(ManifestError, match="more than 100,000 values"):
        parse_manifest(bomb)
