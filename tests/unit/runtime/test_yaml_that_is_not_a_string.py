# SPDX-License-Identifier: Apache-2.0
"""YAML reads some words as something else; a cluster does too. The error shows what to write."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.programs import kubectl_program
from lib.left_out import or_left_out
from streamapp.errors import ManifestError
from streamapp.manifest import parse_manifest
from streamapp.manifest.dumping import to_yaml
from streamapp.manifest.text import read_text

SOURCE = "- {name: in, stream: {topic: t}}\n"


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("yes", "true"),
        ("no", "false"),
        ("on", "true"),
        ("Off", "false"),
        ("true", "true"),
        ("y", "true"),
        ("N", "false"),
        ("1e3", "the number 1000.0"),
        ("0o17", "the number 15"),
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


# Words in the tables of YAML's resolvers, near misses, and every form of a number.
WORDS = """
    y Y n N yes Yes YES yEs no No NO nO on On ON oN off Off OFF true True TRUE tRue false False FALSE t f T F yess non
    null Null NULL nULL ~ ~a .nan .NaN .NAN .Nan .inf .Inf -.inf +.inf .infx nan inf Infinity
    0 1 -1 +1 007 08 09 0o17 0O17 0o8 0x1F 0X1f 0xg -0x1 +0x1 0b101 0B1 -0b1 0b2 1_000 _1 1_ 1__0 0x_1 12e 1e3 1E3 -1e-3
    1.5 -1.5 +1.5 1. .5 -.5 . .. 1.5.2 1.5e3 .5e3 1_0.5 ._5 1:30 1:30.5 190:20:30 9223372036854775807
    9223372036854775808 18446744073709551615 18446744073709551616
    -9223372036854775808 -9223372036854775809 +9223372036854775808
    2024-01-31 2024-1-3 2001-12-14t21:59:43.10-05:00 2024-01-31T00:00:00Z 12:00:00 = < << user a.b a-b 5s 10% $x (a)
"""


def as_json(value: object) -> object:
    """A number as JSON has it: no NaN, and no difference between 1 and 1.0."""
    return value if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def test_words_are_read_as_kubectl_reads_them(tmp_path: Path) -> None:
    """As values and as keys, by the real kubectl."""
    words = [word for word in WORDS.split() if not word.lower().endswith(("nan", ".inf")) and word != "<<"]
    file = tmp_path / "words.yaml"
    lines = "".join(f"- {word}\n" for word in words)
    file.write_text(f"apiVersion: a/v1\nkind: Words\nmetadata: {{name: words}}\nwords:\n{lines}")
    kubectl = [or_left_out(kubectl_program), "annotate", "--local", "-f", str(file), "read=yes", "-o", "json"]
    theirs = json.loads(subprocess.run(kubectl, check=True, capture_output=True, text=True).stdout)["words"]
    ours = read_text(file.read_text()).data["words"]
    assert {w: as_json(v) for w, v in zip(words, ours, strict=True)} == {
        w: as_json(v) for w, v in zip(words, theirs, strict=True)
    }


def test_what_we_write_is_read_as_it_was_meant() -> None:
    words = {word: word for word in WORDS.split()}
    assert read_text(to_yaml(words)).data == words


@pytest.mark.parametrize("key", ["y", "N", "yes", "Off", "on", "1", "1e3", "null", "~"])
def test_a_key_that_kubectl_reads_otherwise_is_refused(problems: Callable[..., list[str]], key: str) -> None:
    (problem,) = problems(SOURCE + f"- {{name: kept, select: {{{key}: value}}}}\n- {{name: out, to: {{topic: u}}}}")
    assert problem.startswith(f"node 'kept': `select.{key}`: the key `{key}` is read by YAML as")
    assert problem.endswith(f"write it in quotes: '{key}'")


def test_what_is_left_of_such_a_key_in_a_cluster_is_refused(problems: Callable[..., list[str]]) -> None:
    (problem,) = problems(SOURCE + "- {name: kept, select: {'true': value}}\n- {name: out, to: {topic: u}}")
    assert "column `true`: without quotes, y, n, yes, no, on and off are read as true and false" in problem


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


@pytest.mark.parametrize(
    ("manifest", "line"),
    [
        ("a: 1\nb: 'x\nc: y\n", 2),
        ('a:\n  x: "abc\n  y: 1\n  z: "k"\n', 2),
        ("- a: 1\n- {a: 'x, b: y}\n- {c: 'y'}\n", 2),
        ('a: "two\n  lines"\nb: [1\nc: 2\n', None),  # closed, and another mistake follows
    ],
)
def test_a_quote_that_is_not_closed_is_reported_where_it_opened(manifest: str, line: int | None) -> None:
    (problem,) = read_text(manifest).problems
    assert ("quote opens here" in problem.message) == (line is not None)
    assert line is None or problem.line == line


def test_aliases_cannot_make_a_small_text_large() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    for i in range(1, 12):
        bomb += f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 9) + "]\n"
    with pytest.raises(ManifestError, match="more than 100,000 values"):
        parse_manifest(bomb)
