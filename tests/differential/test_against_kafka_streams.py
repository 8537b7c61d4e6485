# SPDX-License-Identifier: Apache-2.0
"""A topology gives the same results here as in Kafka Streams, whatever its input and however that is cut into
epochs."""

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
from differential.topologies import COMPARED, Joined, Twin, manifest
from lib.inprocess import App, Record
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

PUBLISHED: dict[str, tuple[int, list[str]]] = {
    name: (second, sorted(letters))
    for second, results in yaml.safe_load(Path(__file__).with_name("published.yaml").read_text())["results"].items()
    for name, letters in results.items()
}
"""The results of a join in the manual, and the second up to which they go."""
PUBLISHED_ONES = tuple(twin for twin in COMPARED if twin.name in PUBLISHED)
"""The joins of the manual. Its records are in one partition."""
OTHERS = tuple(twin for twin in COMPARED if not twin.name.startswith("published"))
"""All but those that are made for the manual's records alone."""


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
    if not twin.same_updates:
        return
    for key, updates in mine_by_key.items():
        there = other_by_key.get(key, [])
        if every_update:
            assert updates == there, f"{twin.name}, key {key}"
        assert is_subsequence(updates, there), f"{twin.name}, key {key}: {updates} of {there}"


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("partitions", "compared"),
    [
        (1, PUBLISHED_ONES),
        (4, OTHERS),
        pytest.param(1, OTHERS, marks=pytest.mark.chaos),
    ],
    ids=["published-1", "4", "1"],
)
def test_the_same_comes_out(kafka: KafkaConfig, tmp_path: Path, partitions: int, compared: tuple[Twin, ...]) -> None:
    """Sends records one by one, then, after a restart, all the rest at once."""
    first = published() if partitions == 1 else seeded(7, 0, 2, partitions)
    parts = [ended(first, 0, 0, one_by_one=True), ended(seeded(7, 1, 150, partitions), 1, len(first), one_by_one=False)]
    app = App(kafka, tmp_path, manifest(compared))
    topics = {topic for twin in compared for topic in twin.reads}
    app.create(*topics, partitions=partitions)
    records: list[Sent] = []
    late: Counter[str] = Counter()
    for part, at_most in zip(parts, (1, None), strict=True):
        send(app, topics, part)
        app.run(epoch_records=at_most)
        records += part
        late.update({name: told["lateRecords"] for name, told in app.statuses[-1]["subTopologies"].items()})
        asked = answers(compared, records)
        for twin in compared:
            expected = [result for given, answer in asked[twin.name] for result in twin.expected(given, answer.results)]
            ours = twin.compared([result_of(record) for record in app.received(twin.name)])
            assert_same(twin, ours, expected, every_update=at_most == 1 and twin.keeps_keys and twin.every_update)
            twin.require_possible([sent for given, _ in asked[twin.name] for sent in given], ours)
            assert late[twin.name] == twin.late(records, asked[twin.name]), twin.name
            if part is parts[0] and partitions == 1 and isinstance(twin, Joined) and twin.name in PUBLISHED:
                assert shown(twin, ours) == PUBLISHED[twin.name][1], twin.name
    if compared is OTHERS:
        assert min(late[name] for name in ("tumbling", "hopping-final", "around-outer", "near-left")) > 10


def test_kafka_streams_gives_what_its_manual_shows() -> None:
    """Without this, the other tests would compare with something else than Kafka Streams."""
    records = ended(published(), 0, 0, one_by_one=False)
    assert len(PUBLISHED_ONES) == len(PUBLISHED)
    for twin, ((_, answer),) in zip(PUBLISHED_ONES, answers(PUBLISHED_ONES, records).values(), strict=True):
        assert shown(twin, answer.results) == PUBLISHED[twin.name][1], twin.name


def shown(twin: Twin, results: Iterable[Result]) -> list[str]:
    """These results in the form in which the manual shows them."""
    until = NOON + PUBLISHED[twin.name][0] * SECOND
    return sorted(letters(result) for result in results if result.timestamp <= until)


def letters(result: Result) -> str:
    """A pair of letters, `-` for none; `x` for a deletion."""
    pair = (result.fields[side] for side in ("left", "right")) if result.value is not None else ()
    return "".join("-" if n is None else chr(n) for n in pair) or "x"


def answers(twins: Iterable[Twin], records: Sequence[Sent]) -> dict[str, list[tuple[list[Sent], Answer]]]:
    """The records and the answer of Kafka Streams for each twin."""
    questions = [(twin.name, given) for twin in twins for given in twin.questions(records)]
    told: dict[str, list[tuple[list[Sent], Answer]]] = defaultdict(list)
    for (name, given), answer in zip(questions, ask(questions), strict=True):
        told[name].append((given, answer))
    return told
