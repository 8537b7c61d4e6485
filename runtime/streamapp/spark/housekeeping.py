# SPDX-License-Identifier: Apache-2.0
"""The work of an app on Kafka beside its queries: it shows its position, measures its lag, counts the records that are
about to expire, purges its hops, and makes sure that no other driver has taken over.

All of it is done in a thread of its own and may fail: a broker that does not answer must neither end the app nor hold
up its stop, its status and its terminal. The queries notice such a broker by themselves, and decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread

from streamapp import failpoint
from streamapp.internal_topics import REPARTITION
from streamapp.kafka.admin import Admin, MissingTopic
from streamapp.kafka.claims import Claimed, TopicLost, require_kept
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.expiry import Expiry
from streamapp.kafka.group import GroupPosition
from streamapp.kafka.topics import topics_of
from streamapp.plan import Plan
from streamapp.spark.progress import Offsets

PATIENCE_SECONDS = 2.0
PURGE_SECONDS = 10.0
CONFIRM_SECONDS = 10.0


class Housekeeping:
    """One thread calls this; `lag` and `trouble` are those of the last round that has ended."""

    def __init__(
        self,
        kafka: KafkaConfig,
        plan: Plan,
        claimed: Claimed,
        ask_objection: Callable[[], str],
        flush: Callable[[], None],
    ) -> None:
        """
        Args:
            claimed: the topics and the group that are the app's own.
            ask_objection: returns why this driver has to stop, as another one has taken over; empty when it need not.
            flush: makes the record of ended epochs durable; raises when it cannot.
        """
        self._plan = plan
        self._claimed = claimed
        self._ask_objection = ask_objection
        self._flush = flush
        self._asked_at = time.monotonic()
        self._admin = Admin(kafka)
        self._group = GroupPosition(kafka, plan.application_id)
        self._expiry = Expiry(self._admin)
        self._first: dict[str, dict[int, int]] = {}
        self._places: Offsets = {}
        self._hops = {topic.name for topic in plan.topics if topic.role == REPARTITION}
        self._needed = {topic.name: topic for topic in topics_of(plan)}
        self._purged: Offsets = {}
        self._purged_at = time.monotonic()
        self._rounds: SimpleQueue[tuple[Offsets, Event] | None] = SimpleQueue()
        self._ended = Event()
        self._ended.set()
        self.lag: dict[str, int] | None = None
        """Committed records that are still to be read, by TOPIC/PARTITION; None while this is not known."""
        self.trouble: str | None = None
        """Why the last round did not do everything."""
        self.objection = ""
        """Why the app has to stop."""
        Thread(target=self._run, name="housekeeping", daemon=True).start()

    @property
    def expiring(self) -> dict[str, int]:
        """Records that are still to be read and that their topic will soon delete, by TOPIC/PARTITION."""
        return self._expiry.expiring

    def go_round(self, positions: Offsets) -> None:
        """Does everything once. Returns after PATIENCE_SECONDS at the latest. A round that is not done by then goes on
        in the background, and further calls do nothing until it has ended."""
        if self._ended.is_set():
            self._ended = Event()
            self._rounds.put((positions, self._ended))
            self._ended.wait(PATIENCE_SECONDS)

    def close(self, positions: Offsets) -> None:
        """A last round, where Kafka answers."""
        self.go_round(positions)
        self._rounds.put(None)
        if self._ended.is_set():
            self._group.close()

    def _run(self) -> None:
        for positions, ended in iter(self._rounds.get, None):
            try:
                self.trouble = self._round(positions)
            except Exception as error:  # any error: the app can do without this work
                self.trouble = str(error)
            finally:
                ended.set()

    def _round(self, positions: Offsets) -> str | None:
        try:
            self._require_own_topics()
            self.trouble = trouble = self._measure(positions)
            failpoint.hit("housekeeping.lag-measured")
        except Exception as error:
            self.trouble = str(error)
            raise
        finally:  # last: it waits a minute where Kafka or the metadata topic is away, and `trouble` must say so before
            self._require_driver()
        if self.objection:
            return self.objection
        # Offsets that are shown or purged must be behind every epoch that the next driver might run again.
        self._flush()
        if self._claimed.group:
            self._group.write(positions)
        failpoint.hit("housekeeping.group-written")
        self._purge(positions)
        self._expiry.look(self._places, self.lag or {})
        return trouble or self._group.trouble or self._no_group

    def _require_driver(self) -> None:
        if not self.objection and time.monotonic() - self._asked_at >= CONFIRM_SECONDS:
            self._asked_at = time.monotonic()
            self.objection = self._ask_objection()

    def _require_own_topics(self) -> None:
        """Checks that the topics are still ours: nothing may be written or purged in a topic of another owner."""
        recorded = self._claimed.topics
        found = self._admin.topic_ids(list(recorded))
        try:
            for name in sorted(found):
                require_kept(self._needed[name], recorded[name], found[name])
        except TopicLost as lost:
            self.objection = str(lost)
            raise

    @property
    def _no_group(self) -> str | None:
        if self._claimed.group:
            return None
        group = self._plan.application_id
        return (
            f"consumer group '{group}' was there before this app, which does not write it: other tools do not see how "
            f"far the app is; if nobody needs it, delete it and restart (kafka-consumer-groups --delete --group "
            f"{group})"
        )

    def _measure(self, positions: Offsets) -> str | None:
        topics = {*self._plan.source_topics, *(topic for topic, _ in positions)}
        missing = self._missing(topics)
        lag: dict[str, int] = {}
        self._places = {}
        for topic in sorted(topics):
            try:
                ends, first = self._admin.end_offsets(topic), self._first_positions(topic)
            except MissingTopic:  # deleted under way: the others still count
                continue
            for partition, end in sorted(ends.items()):
                position = positions.get((topic, partition), first.get(partition, 0))
                self._places[topic, partition] = position
                lag[f"{topic}/{partition}"] = max(0, end - position)
        self.lag = lag
        return missing

    def _missing(self, read: set[str]) -> str | None:
        """A line about a topic that the app reads or writes and that does not exist any more; None where there is none.
        A task waits for such a topic for minutes before it reports it."""
        gone = sorted({*self._needed, *read} - self._admin.topics().keys())
        if not gone:
            return None
        spec = self._needed.get(gone[0])
        if spec is None or not spec.internal:
            return f"topic '{gone[0]}' does not exist"
        return f"internal topic '{gone[0]}' of '{spec.node}' does not exist any more: its content is lost"

    def _first_positions(self, topic: str) -> dict[int, int]:
        """The app's offsets in a topic before its first epoch here: those of its group, else those of `startFrom`."""
        if topic not in self._first:
            earliest = self._plan.start_from == "earliest"
            offsets = self._admin.start_offsets(topic) if earliest else self._admin.end_offsets(topic)
            shown = self._group.read((topic, at) for at in offsets) if self._claimed.group else {}
            self._first[topic] = {at: shown.get((topic, at), offset) for at, offset in offsets.items()}
        return self._first[topic]

    def _purge(self, positions: Offsets) -> None:
        """Deletes the records of hops that every reader has committed: those topics have no retention of their own."""
        if not self._hops or time.monotonic() - self._purged_at < PURGE_SECONDS:
            return
        self._purged_at = time.monotonic()
        done = {at: end for at, end in positions.items() if at[0] in self._hops and end > self._purged.get(at, 0)}
        if done:
            self._admin.purge(done)
            failpoint.hit("housekeeping.hops-purged")
            self._purged |= done
