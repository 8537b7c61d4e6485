# SPDX-License-Identifier: Apache-2.0
"""What comes out of a topology here is what comes out of Kafka Streams, whatever comes in and however it is cut."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from differential.oracle import Answer, ask
from differential.records import NOON, SECOND, Result, Sent, ended, published, seeded, text_of
from differential.topologies import COMPARED, Twin, manifest
from lib.inprocess import App, Record
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

PUBLISHED: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text())["results"]


def send(app: App, topics: Iterable[str], records: Iterable[Sent]) -> None:
    by_place = defaultdict(list)
    for sent in records:
        by_place[sent.topic, sent.partition].append((sent.key, sent.value, sent.timestamp))
    for (topic, partition), here in by_place.items():
        if topic in topics:
            app.send(topic, *here, partition=partition)


def result_of(record: Record) -> Result:
    """A record of ours in the words of Kafka Streams: a window's key is its key, its start and its end in ms."""
    key = record.key
    if key is not None and key.startswith("{"):
        group = json.loads(key)
        start, end = (_ms(group[name]) for name in ("window_start", "window_end"))
        key = json.dumps({"key": group["key"], "start": start, "end": end}, separators=(",", ":"))
    return Result(key, text_of(record.value), record.timestamp)


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def by_key(results: Iterable[Result]) -> dict[str | None, list[Result]]:
    """The updates of each key, in their order."""
    found = defaultdict(list)
    for result in results:
        found[result.key].append(result)
    return dict(found)


def rows(updates: dict[str | None, list[Result]]) -> dict[str | None, Result]:
    """The table that its updates come to."""
    return {key: of_key[-1] for key, of_key in updates.items() if of_key[-1].value is not None}


def is_subsequence(some: Iterable[Result], of: Iterable[Result]) -> bool:
    rest = iter(of)
    return all(result in rest for result in some)


def assert_same(twin: Twin, ours: Sequence[Result], theirs: Sequence[Result], every_update: bool) -> None:
    if not twin.gives_table:
        mine, other = Counter(ours), Counter(theirs)
        assert mine == other, f"{twin.name}: more {mine - other}, missing {other - mine}"
        return
    mine_by_key, other_by_key = by_key(ours), by_key(theirs)
    assert rows(mine_by_key) == rows(other_by_key), twin.name
    for key, updates in mine_by_key.items():
        there = other_by_key.get(key, [])
        if every_update:
            assert updates == there, f"{twin.name}, key {key}"
        assert is_subsequence(updates, there), f"{twin.name}, key {key}: {updates} of {there}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("partitions", [1, 4])
def test_the_same_comes_out(kafka: KafkaConfig, tmp_path: Path, partitions: int) -> None:
    """Records one by one, then, after a restart, all that there is at once."""
    first = published() if partitions == 1 else seeded(7, 0, 6, partitions)
    parts = [ended(first, 0, 0, one_by_one=True), ended(seeded(7, 1, 150, partitions), 1, len(first), one_by_one=False)]
    app = App(kafka, tmp_path, manifest(COMPARED))
    topics = {topic for twin in COMPARED for topic in twin.reads}
    app.create(*topics, partitions=partitions)
    records: list[Sent] = []
    late: Counter[str] = Counter()
    for part, at_most in zip(parts, (1, None), strict=True):
        send(app, topics, part)
        app.run(epoch_records=at_most)
        records += part
        late.update({name: told["lateRecords"] for name, told in app.statuses[-1]["subTopologies"].items()})
        asked = answers(COMPARED, records)
        for twin in COMPARED:
            expected = [result for given, answer in asked[twin.name] for result in twin.expected(given, answer.results)]
            ours = twin.compared([result_of(record) for record in app.received(twin.name)])
            assert_same(twin, ours, expected, every_update=at_most == 1 and twin.keeps_keys)
            assert late[twin.name] == twin.late(records, asked[twin.name]), twin.name
            if part is parts[0] and partitions == 1 and twin.name in PUBLISHED:
                assert sorted(filter(None, map(letters, ours))) == sorted(PUBLISHED[twin.name]), twin.name
    assert min(late[name] for name in ("tumbling", "hopping-final", "around-outer", "near-left")) > 10


def letters(result: Result) -> str:
    """A result of a published join as the manual has it; nothing where it is of what the manual does not show."""
    if result.timestamp >= NOON + 100 * SECOND:
        return ""
    pair = (result.fields[side] for side in ("left", "right"))
    return "x" if result.value is None else "".join("-" if n is None else chr(n) for n in pair)


def answers(twins: Iterable[Twin], records: Sequence[Sent]) -> dict[str, list[tuple[list[Sent], Answer]]]:
    """Of Kafka Streams, for each twin what it was given and what it said."""
    questions = [(twin.name, given) for twin in twins for given in twin.questions(records)]
    told: dict[str, list[tuple[list[Sent], Answer]]] = defaultdict(list)
    for (name, given), answer in zip(questions, ask(questions), strict=True):
        told[name].append((given, answer))
    return told
