# SPDX-License-Identifier: Apache-2.0
"""`streamapp test` on files of cases: which cases pass, which fail, and how that is shown."""

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

IN_HOURS = """
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {name: clock}
spec:
  maxParallelism: 2
  topology:
  - {name: asked, stream: {topic: asked}}
  - {name: told, stream: {topic: told}}
  - name: pairs
    from: asked
    join: {with: told, by: [key], type: left, within: 1 minute, select: {said: told.value}}
  - {name: pairs-out, from: pairs, to: {topic: pairs}}
  - name: per-minute
    from: asked
    groupBy: [key]
    window: {tumbling: 1 minute}
    emit: final
    aggregate: {asked: count(*)}
  - {name: minutes, from: per-minute, toStream: {}}
  - name: per-hour
    from: minutes
    groupBy: [key]
    window: {tumbling: 1 hour}
    emit: final
    aggregate: {minutes: count(*), asked: sum(asked)}
  - {name: per-hour-out, from: per-hour, to: {topic: per-hour}}
"""

CASES_IN_HOURS = """
app: in-hours.yaml
cases:
- name: the time of each part goes on when those that it reads from have gone on
  partitions: 3
  steps:
  - advance: 1 day
  - send:
      topic: asked
      records:
      - {key: a, value: x, timestamp: 2024-01-01T00:00:00Z}
      - {key: a, value: x, timestamp: 2024-01-01T00:59:59Z}
      - {key: b, value: x, timestamp: 2024-01-01T00:59:00Z}
  - send: {topic: told, records: [{key: b, value: new, timestamp: 2024-01-01T00:58:00Z}]}
  - expect: {topic: pairs, records: [{key: a, value: {said: null}}, {key: b, value: {said: new}}]}
  - crash: {}
  - advance: 1 hour
  - expect: {topic: pairs, records: [{key: a, value: {said: null}}]}
  - expect:
      topic: per-hour
      order: last
      records:
      - key: {key: a, window_start: "2024-01-01T00:00:00.000Z", window_end: "2024-01-01T01:00:00.000Z"}
        value: {minutes: 2, asked: 2}
      - key: {key: b, window_start: "2024-01-01T00:00:00.000Z", window_end: "2024-01-01T01:00:00.000Z"}
        value: {minutes: 1, asked: 1}
  - send: {topic: asked, records: [{key: a, value: late, timestamp: 2024-01-01T01:57:00Z}]}
  - advance: 1 hour
  - expect: {topic: pairs, records: []}
- name: a record without a timestamp has the time of the case
  steps:
  - send: {topic: asked, records: [{key: a, value: x}]}
  - expect: {topic: pairs, records: []}
  - advance: 30 days
  - expect: {topic: pairs, records: [{key: a, value: {said: null}}]}
  - send: {topic: asked, records: [{key: b, value: x}]}
  - send: {topic: told, records: [{key: b, value: new}]}
  - expect: {topic: pairs, records: [{key: b, value: {said: new}}]}
"""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamapp.cli.main", "test", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=500)


@pytest.mark.timeout(600)
def test_the_examples() -> None:
    """They send, expect, ask stores, crash, restart, and let event time go on."""
    files = sorted((EXAMPLES / "tests").glob("*.yaml"))
    done = run(*files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "5 passed, 0 failed"


@pytest.mark.timeout(600)
def test_what_fails_is_shown(tmp_path: Path) -> None:
    """In one run with cases that pass: when event time goes on without records, windows close, also behind a hop, and
    records without a partner come out; records of a time that is over are late."""
    text = (EXAMPLES / "word-count.yaml").read_text()
    (tmp_path / "word-count.yaml").write_text(text)
    at_least_two = "  - {name: many, from: counts, filter: count > 1}\n  - {name: out, from: many,"
    (tmp_path / "many.yaml").write_text(text.replace("  - {name: out,    from: counts,", at_least_two))
    strict = text.replace("value: text", "value: long").replace("lower(value)", "string(value)")
    (tmp_path / "strict.yaml").write_text(strict)
    (tmp_path / "cases.yaml").write_text(CASES)
    (tmp_path / "in-hours.yaml").write_text(IN_HOURS)
    (tmp_path / "hours.yaml").write_text(CASES_IN_HOURS)
    done = run(tmp_path / "cases.yaml", tmp_path / "hours.yaml", "--junit", tmp_path / "results.xml")
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
    assert lines[-1] == "3 passed, 2 failed", done.stdout
    counts = [tuple(suite.get(name) for name in ("tests", "failures", "errors")) for suite in suites(tmp_path)]
    assert counts == [("3", "2", "0"), ("2", "0", "0")]


def suites(folder: Path) -> ElementTree.Element:
    """The results of each file."""
    return ElementTree.parse(folder / "results.xml").getroot()
