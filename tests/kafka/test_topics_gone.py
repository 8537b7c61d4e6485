# SPDX-License-Identifier: Apache-2.0
"""R10: somebody deletes a topic that the app depends on. The app reports it within a minute, and passes over nothing in
silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.app import ECHO, TOTALS, Bench
from lib.broker import write
from lib.faults import require_work
from lib.inprocess import App
from lib.wait import until
from streamapp.errors import RunError
from streamapp.kafka.admin import TopicSpec
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.topics import ensure_topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

TOLD_SECONDS = 60.0


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("totals-changelog", "internal topic '{}' of 'totals' does not exist any more: its content is lost"),
        ("metadata", "internal topic '{}' of 'metadata' does not exist any more: its content is lost"),
        ("totals", "topic '{}' does not exist"),
    ],
)
def test_a_deleted_topic_is_told(kafka: KafkaConfig, tmp_path: Path, topic: str, said: str) -> None:
    with Bench(kafka, tmp_path, "gone", TOTALS + ECHO) as bench:
        load = bench.load(seed=1001, rate=100)
        app = bench.start()
        app.await_work()
        load.start()
        app.await_epochs_beyond(app.epochs())
        require_work(bench, load)
        name = f"{bench.prefix}-{topic}"
        bench.admin.delete([name])
        words = said.format(name)

        def told() -> bool:
            return words in str(app.status().get("error")) or words in app.said

        until(told, TOLD_SECONDS, lambda: f"{words!r}; it said {app.status().get('error')}, {app.tail()}", every=0.2)
        load.stop()
        if topic == "totals-changelog":  # and is made again, as a broker does that makes a topic at the first write
            ensure_topics(bench.admin, [TopicSpec(name, "test", 2, {"cleanup.policy": "compact"}, True)])
            assert app.await_exit(TOLD_SECONDS) == 3, app.tail()
            assert f"internal topic '{name}' of 'totals' was deleted and made anew" in app.said


@pytest.mark.parametrize(
    ("topology", "topic", "code", "why"),
    [
        (TOTALS, "totals-changelog", 3, "-changelog' of 'totals' does not exist any more: its content is lost"),
        (TOTALS, "metadata", 1, "totals-changelog' of 'totals' exists, has been written to, and is not on record"),
        (ECHO, "metadata", 1, "position' of 'position' exists, has been written to, and is not on record"),
    ],
    ids=["changelog", "metadata-of-state", "metadata"],
)
def test_what_is_lost_is_not_begun_anew_in_silence(
    kafka: KafkaConfig, tmp_path: Path, topology: str, topic: str, code: int, why: str
) -> None:
    """Results would be wrong, or come twice: the next start is refused, and the error says why."""
    with Bench(kafka, tmp_path, "gone", topology) as bench:
        load = bench.load(seed=1002, rate=100)
        first = bench.start()
        first.await_work()
        load.send(500)
        first.await_epochs_beyond(first.epochs())
        assert first.stop() == 0
        output = bench.topics["totals" if topology == TOTALS else "echo"]
        ends = bench.admin.end_offsets(output)
        name = f"{bench.prefix}-{topic}"
        bench.admin.delete([name])
        until(lambda: name not in bench.admin.topics(), 30, "the topic is gone")
        load.send(500)
        again = bench.start()
        assert again.await_exit(TOLD_SECONDS) == code, again.tail()
        assert why in again.said
        assert bench.admin.end_offsets(output) == ends, "there are no new results"


def test_an_epoch_that_is_planned_anew_is_refused(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Its tasks would not read the second time the records that they did not read the first time: they are done."""
    app = App(
        kafka,
        tmp_path,
        """
  - {name: lines, stream: {topic: $T-lines, value: text}}
  - {name: counts, groupBy: [value], aggregate: {count: count(*)}}
  - {name: out, to: {topic: $T-counts}}
""",
    )
    app.create("lines")
    for value in ("a", "b"):
        app.send("lines", (None, value))
        app.run()
    keys = [(key or b"").decode() for key, _ in app.raw("metadata")]
    numbers = [key.partition("/counts/offsets/")[2] for key in keys]
    last = max(int(number) for number in numbers if number)
    lost = [f"/{app.prefix}/counts/{log}/{last}" for log in ("commits", "offsets")]
    write(kafka, app.topic("metadata"), *((key, None) for key in lost))
    app.send("lines", (None, "c"))
    with pytest.raises(RunError, match=f"has committed epoch {last} with other records than the epoch log has"):
        app.run()
    assert app.latest("counts") == {"a": {"count": 1}, "b": {"count": 1}}
