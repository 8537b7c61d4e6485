# SPDX-License-Identifier: Apache-2.0
"""Benchmarks side by side: `python -m benchmarks [NAME...] [--quick]`.

All systems work on one embedded broker, one after the other, round after round. Results are printed, and written into
docs/benchmarks.md unless the run was a quick or a partial one.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

from benchmarks import by_key, first_output, latency, memory, report, restore, sub_topologies, systems, word_count
from benchmarks.kafka_edge import Kafka
from benchmarks.systems import KAFKA_STREAMS, OURS, STOCK_SPARK, Starter
from streamapp.kafka.broker import EmbeddedBroker

AGAINST = ("/ Kafka Streams", "/ stock Spark")
Result = TypeVar("Result")
Measure = Callable[[str, Starter, str], Result]


class Bench:
    """One session on one broker."""

    def __init__(self, options: argparse.Namespace, kafka: Kafka | None, scratch: Path) -> None:
        self._options = options
        self._given = kafka
        self._scratch = scratch
        self._quick: bool = options.quick

    @property
    def _kafka(self) -> Kafka:
        assert self._given is not None
        return self._given

    def word_count(self) -> str:
        load = word_count.Load(lines=self._options.lines or (100_000 if self._quick else 1_200_000))
        found = self._rounds(
            "word-count",
            systems.SYSTEMS,
            lambda name, start, run: word_count.measure(self._kafka, name, start, load, run, self._scratch),
        )
        rate = {name: [one.lines_per_second for one in rounds] for name, rounds in found.items()}
        rows = [
            (
                name,
                *(f"{one:,.0f}" for one in rate[name]),
                f"{median(rate[name]):,.0f}",
                *(_ratio(rate, name, other) for other in (KAFKA_STREAMS, STOCK_SPARK)),
                f"{median(one.cpu_seconds for one in rounds) / load.lines * 1e6:.1f}",
                f"{median(one.records_out for one in rounds):,.0f}",
            )
            for name, rounds in found.items()
        ]
        head = ("lines/s", *self._numbers, "median", *AGAINST, "CPU s / 1M lines", "records out")
        return f"{load.lines:,} lines of 5 words.\n\n" + report.table(head, rows)

    def by_key(self, what: str) -> str:
        records = self._options.records or (200_000 if self._quick else by_key.RECORDS[what])
        load = by_key.Load(records)
        workload = by_key.WORKLOADS[what](load)
        found = self._rounds(
            what,
            workload.systems,
            lambda name, start, run: by_key.measure(self._kafka, name, start, workload, load, run, self._scratch),
        )
        rate = {name: [one.records_per_second for one in rounds] for name, rounds in found.items()}
        rows = [
            (
                name,
                *(f"{one:,.0f}" for one in rate[name]),
                f"{median(rate[name]):,.0f}",
                _ratio(rate, name, KAFKA_STREAMS),
                f"{median(one.cpu_seconds for one in rounds) / load.records * 1e6:.1f}",
            )
            for name, rounds in found.items()
        ]
        head = ("records/s", *self._numbers, "median", AGAINST[0], "CPU s / 1M records")
        return f"{load.records:,} records, {by_key.KEYS:,} keys.\n\n" + report.table(head, rows)

    def latency(self, what: str) -> str:
        load = latency.Load(by_key=what == "latency-by-key")
        if self._quick:
            load = replace(load, seconds=10, warm_up_seconds=10)
        found = self._rounds(
            what,
            latency.starters(load),
            lambda name, start, run: latency.measure(self._kafka, name, start, load, run, self._scratch),
        )
        rows = [
            (
                name,
                *(f"{one.p50_ms:.0f} / {one.p99_ms:.0f}" for one in rounds),
                f"{median(one.p50_ms for one in rounds):.0f} / {median(one.p99_ms for one in rounds):.0f}",
            )
            for name, rounds in found.items()
        ]
        text = f"{load.per_second:,} records/s for {load.seconds} s after {load.warm_up_seconds} s of warm-up.\n\n"
        return text + report.table(("p50 / p99 in ms", *self._numbers, "median"), rows)

    def restore(self) -> str:
        keys = self._options.keys or (100_000 if self._quick else 1_000_000)
        starters = {name: systems.SYSTEMS[name] for name in (OURS, KAFKA_STREAMS)}
        found = self._rounds(
            "restore",
            starters,
            lambda name, start, run: restore.measure(self._kafka, name, start, keys, run, self._scratch),
        )
        rows = [
            (
                name,
                *(f"{one.seconds:.1f}" for one in rounds),
                f"{median(one.seconds for one in rounds):.1f}",
                f"{median(one.start_to_output_seconds for one in rounds):.1f}",
            )
            for name, rounds in found.items()
        ]
        head = ("seconds", *self._numbers, "median", "process start to new output")
        return f"{keys:,} keys.\n\n" + report.table(head, rows)

    def memory(self) -> str:
        keys = self._options.keys or (300_000 if self._quick else 10_000_000)
        found = self._rounds(
            "memory",
            systems.SYSTEMS,
            lambda name, start, run: memory.measure(self._kafka, name, start, keys, run, self._scratch),
            rounds=1,
        )
        rows = [
            (name, f"{rounds[0].peak_mb:,.0f}", f"{keys / rounds[0].seconds:,.0f}") for name, rounds in found.items()
        ]
        head = ("JVM", "peak resident MB", "keys/s, start included")
        return f"{keys:,} keys, each heap at most {systems.HEAP}.\n\n" + report.table(head, rows)

    def first_output(self) -> str:
        found = self._rounds(
            "first-output",
            systems.SYSTEMS,
            lambda name, start, run: first_output.measure(self._kafka, name, start, run, self._scratch),
        )
        rows = [(name, *(f"{one:.1f}" for one in rounds), f"{median(rounds):.1f}") for name, rounds in found.items()]
        return report.table(("seconds", *self._numbers, "median"), rows)

    def sub_topologies(self) -> str:
        load = sub_topologies.Load(seconds=15, warm_up_seconds=15) if self._quick else sub_topologies.Load()
        found = {}
        for number in sub_topologies.NUMBERS:
            found[number] = sub_topologies.measure(self._kafka, number, load, self._scratch)
            print(f"  sub-topologies, {number}: {found[number]}", flush=True)
        head = ("p50 / p99 in ms", *sub_topologies.COLUMNS, "processors in use", "processor time of an epoch, ms")
        text = f"{load.per_second:,} records/s for {load.seconds} s after {load.warm_up_seconds} s of warm-up.\n\n"
        return text + report.table(head, [sub_topologies.row(n, each) for n, each in found.items()])

    def operator(self) -> str:
        from benchmarks import reconcile  # which needs the tests' API server; the others do not

        apps = self._options.apps or (20 if self._quick else 200)
        found = {}
        for number, (name, kind) in enumerate(reconcile.KINDS.items()):
            if self._options.only.lower() in name and not (self._quick and kind.apps):
                found[name] = reconcile.measure(apps, kind, self._scratch / f"operator-{number}")
                print(f"  operator, {name}: {found[name]}", flush=True)
        rows = [(what, must, *map(say, found.values())) for what, must, say in reconcile.ROWS]
        return f"{apps} apps.\n\n" + report.table(("operator", "must (aim)", *found), rows)

    def first_epoch(self) -> str:
        from benchmarks import first_epoch  # which needs the tests' cluster

        rounds = first_epoch.measure(self._options.rounds, self._scratch)
        head = ("seconds from `kubectl apply` until", "must (aim)", *self._numbers, "median")
        return report.table(head, first_epoch.summary(rounds))

    @property
    def _numbers(self) -> tuple[str, ...]:
        return tuple(f"round {number + 1}" for number in range(self._options.rounds))

    def _rounds(
        self, what: str, starters: dict[str, Starter], measure: Measure[Result], rounds: int = 0
    ) -> dict[str, list[Result]]:
        wanted = {name: start for name, start in starters.items() if self._options.only.lower() in name.lower()}
        found: dict[str, list[Result]] = {name: [] for name in wanted}
        for number in range(1, (rounds or self._options.rounds) + 1):
            for name, start in wanted.items():
                result = measure(name, start, f"{what}-{number}")
                print(f"  {what}, round {number}, {name}: {result}", flush=True)
                found[name].append(result)
        return found


def _ratio(rate: dict[str, list[float]], name: str, other: str) -> str:
    """How many times as fast as another system, in the median over the rounds: runs of one round are compared."""
    if other not in rate:
        return "-"
    return f"{median(ours / others for ours, others in zip(rate[name], rate[other], strict=True)):.2f}"


BENCHMARKS: dict[str, Callable[[Bench], str]] = {
    "word-count": Bench.word_count,
    **{what: partial(Bench.by_key, what=what) for what in by_key.WORKLOADS},
    **{what: partial(Bench.latency, what=what) for what in ("latency", "latency-by-key")},
    "restore": Bench.restore,
    "memory": Bench.memory,
    "first-output": Bench.first_output,
    "sub-topologies": Bench.sub_topologies,
    "operator": Bench.operator,
    "first-epoch": Bench.first_epoch,
}
ON_KUBERNETES = ("operator", "first-epoch")
"""Benchmarks that start all that they need, and compare nothing with Kafka Streams."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "what", metavar="NAME", nargs="*", help=f"benchmarks to run, of {', '.join(BENCHMARKS)} (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="run one round with a small load, to see whether it works")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of each benchmark (default: 3, with --quick 1)")
    parser.add_argument("--lines", type=int, default=0, help="lines of word-count")
    parser.add_argument("--records", type=int, default=0, help=f"records of {', '.join(by_key.WORKLOADS)}")
    parser.add_argument("--keys", type=int, default=0, help="keys of restore and memory")
    parser.add_argument("--apps", type=int, default=0, help="apps of operator")
    parser.add_argument("--only", default="", help="run only systems whose name has this text in it")
    parser.add_argument(
        "--profile",
        action="store_true",
        help="print the CPU profile of word-count, restore, sub-topologies and the benchmarks by key",
    )
    options = parser.parse_args()
    systems.PROFILING = options.profile
    for what in options.what:
        if what not in BENCHMARKS:
            parser.error(f"no benchmark {what!r}; there are {', '.join(BENCHMARKS)}")
    sized = options.rounds or options.lines or options.records or options.keys or options.apps
    full = not (sized or options.quick or options.only or options.profile)
    options.rounds = options.rounds or (1 if options.quick else 3)
    wanted = options.what or list(BENCHMARKS)
    about = report.machine()
    print(about)
    with ExitStack() as stack:
        scratch = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="streamapp-bench-", ignore_cleanup_errors=True))
        )
        kafka = None
        if not set(wanted) <= set(ON_KUBERNETES):
            systems.build_kafka_streams()
            kafka = Kafka(stack.enter_context(EmbeddedBroker(scratch / "broker", heap="1g")).bootstrap_servers)
        bench = Bench(options, kafka, scratch)
        for what in wanted:
            text = BENCHMARKS[what](bench)
            print(f"\n{what}: {text}\n", flush=True)
            if full:
                report.write(what, f"{about}\n\n{text}")


main()
