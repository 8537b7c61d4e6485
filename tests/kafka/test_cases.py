# SPDX-License-Identifier: Apache-2.0
"""`streamapp test` on files of cases: what passes, what fails and how that is shown."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.kafka

EXAMPLES = Path(__file__).parents[2] / "examples"

CASES = """
app: word-count.yaml
cases:
- name: a wrong count is shown
  partitions: 4
  steps:
  - send: {topic: text-lines, records: [{value: a b a, timestamp: 2024-01-01T00:00:00Z}]}
  - store: {name: word-counts, key: a, value: {word: a, count: 2}}
  - store: {name: word-counts, key: zzz, rows: []}
  - expect: {topic: word-counts, records: [{key: a, value: {count: 3}}, {key: b, value: {count: 1}}]}
- name: another version goes on with the state, and only with its own
  steps:
  - expect: {topic: word-counts, records: []}
  - send: {topic: text-lines, records: [{value: a a}]}
  - upgrade: many.yaml
  - send: {topic: text-lines, records: [{value: a b}]}
  - crash: {}
  - expect:
      topic: word-counts
      records: [{key: a, value: {count: 2}}, {key: a, value: {count: 3}}, {key: b, value: null}]
- name: an app that fails says why
  app: strict.yaml
  steps:
  - send: {topic: text-lines, records: [{value: no number}]}
"""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamapp.cli.main", "test", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=250)


def test_the_examples() -> None:
    """They send, expect, ask stores, crash and restart."""
    files = sorted((EXAMPLES / "tests").glob("*.yaml"))
    done = run(*files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "3 passed, 0 failed"


def test_what_fails_is_shown(tmp_path: Path) -> None:
    text = (EXAMPLES / "word-count.yaml").read_text()
    (tmp_path / "word-count.yaml").write_text(text)
    at_least_two = "  - {name: many, from: counts, filter: count > 1}\n  - {name: out, from: many,"
    (tmp_path / "many.yaml").write_text(text.replace("  - {name: out,    from: counts,", at_least_two))
    strict = text.replace("value: text", "value: long").replace("lower(value)", "string(value)")
    (tmp_path / "strict.yaml").write_text(strict)
    (tmp_path / "cases.yaml").write_text(CASES)
    done = run(tmp_path / "cases.yaml", "--junit", tmp_path / "results.xml")
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    at = lines.index("  a wrong count is shown ... FAILED")
    assert lines[at + 1 : at + 5] == [
        "    step 4, expect (line 10): topic 'word-counts' has other records (- expected, + seen):",
        '      - key "a" value {"count": 3}',
        '      + key "a" value {"count": 2}',
        '        key "b" value {"count": 1}',
    ]
    assert lines[at + 5].startswith("  another version goes on with the state, and only with its own ... ok"), lines
    assert lines[at + 6] == "  an app that fails says why ... FAILED"
    assert "step 1, send (line 24): the app failed: node 'lines':" in lines[at + 7]
    assert lines[-1] == "1 passed, 2 failed"
    suite = ElementTree.parse(tmp_path / "results.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "2", "0")
