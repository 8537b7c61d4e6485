# SPDX-License-Identifier: Apache-2.0
"""More and fewer executors of a running app: no restart, and no result lost or doubled."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from cluster.app import App
from cluster.namespace import Manifest, Namespace
from lib.app import ECHO, TOTALS, WINDOWS, Bench
from lib.faults import require_work
from lib.grants import asked_for, granted_by
from lib.verify import Proof
from lib.wait import until
from streamapp.kafka.config import KafkaConfig
from streamapp_operator.render.access import DRIVER_RULES

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "10"))
STORES, PARALLELISM = 2, 4
"""The topology of the app that is scaled: totals and windows."""


@pytest.mark.parametrize(
    "rounds", [1, pytest.param(ROUNDS, marks=[pytest.mark.chaos, pytest.mark.timeout(7200)])], ids=["once", "often"]
)
def test_kubectl_scale_changes_a_running_query(
    operated: Namespace, pods_kafka: KafkaConfig, tmp_path: Path, rounds: int
) -> None:
    """R11: 1→4→1→0→1 under load, with an executor's pod lost in the middle. A driver that has done all this, and has
    ended, has used each right that it has."""
    chooser = random.Random(1101)
    spec = (
        f"kafka: {{bootstrapServers: '{pods_kafka.bootstrap_servers}'}}\n"
        "  executor: {resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}}"
    )
    with (
        Bench(pods_kafka, tmp_path, "scaled", TOTALS + ECHO + WINDOWS, parallelism=PARALLELISM, spec=spec) as bench,
        Proof(bench, load := bench.load(seed=1101, rate=100)) as proof,
    ):
        app = App(operated, bench.prefix)
        app.apply(bench.manifest.read_text())
        load.start()
        app.await_ready()
        driver = app.driver()["metadata"]["uid"]
        for _ in range(rounds):
            require_work(bench, load)
            operated.kubectl("scale", f"sapp/{app.name}", "--replicas=4")
            app.await_executors(4)
            await_shares(app, 4)
            victim = chooser.choice(app.executors())
            app.lose(victim)
            proof.await_more(app)
            operated.kubectl("scale", f"sapp/{app.name}", "--replicas=1")
            app.await_executors(1, without=victim)
            await_shares(app, 1)
            proof.await_more(app)
        put = json.loads(app.live("replicas", '{"replicas": 2}'))
        assert put["wanted"] == 2
        until(lambda: replicas(app)["wanted"] == 1, 60, "the operator puts back what the manifest says", every=0.5)
        operated.kubectl("scale", f"sapp/{app.name}", "--replicas=0")
        app.await_condition("Ready", "ScaledToZero", "records wait", 120)
        app.await_executors(0)
        operated.kubectl("scale", f"sapp/{app.name}", "--replicas=1")
        app.await_ready()
        proof.await_more(app)
        assert app.driver()["metadata"]["uid"] == driver
        assert app.status()["restarts"] == 0
        proof.finish(app)
    if (log := operated.cluster.audit_log) is not None:
        asked, refused = asked_for(log, f"system:serviceaccount:{operated.name}:{app.name}-driver")
        assert refused == []
        assert set(granted_by(DRIVER_RULES)) - asked == set(), "granted and not needed"


def replicas(app: App) -> Manifest:
    """The replicas as the driver's own status has them."""
    found: Manifest = json.loads(app.live("status"))["replicas"]
    return found


def await_shares(app: App, executors: int) -> None:
    """Waits until each of so many executors has the same share of the state, which it has read from the changelogs, and
    there is no other."""
    share = STORES * PARALLELISM // executors
    app._until(
        lambda: list(replicas(app)["statePartitions"].values()) == executors * [share],
        60,
        f"{executors} executors with {share} partitions each",
    )


SLOW = """
  - {name: numbers, stream: {topic: $T-numbers, value: {format: json, schema: "n BIGINT, seq BIGINT"}}}
  - {name: slowly, python: {function: "slow:slowly", schema: "n BIGINT, seq BIGINT"}}
  - {name: totals, groupBy: [key], aggregate: {count: count(*), total: sum(n), low: min(n), high: max(n)}}
  - {name: totals-out, to: {topic: $T-totals}}
"""
"""The topology of a slow app. A record takes 20 milliseconds, so that a burst of some hundred is work for a while.
The function waits, as for an answer of another system: two replicas are twice as fast then, even without processors to
spare."""
SLOW_CODE = (
    'code: {files: {slow.py: "import time\\ndef slowly(row):\\n  '
    "time.sleep(0.02)\\n  return {'n': row['n'], 'seq': row['seq']}\"}}"
)
"""A setting: the user's function."""
SLOW_PARALLELISM = 12
"""The parallelism of that app: an executor has four tasks at a time, so that three executors have work."""
BURST, FOR_EACH = 500, 250


def why(app: App, change: str) -> bool:
    """Whether an event reports that change, with its reason: the input rate, a replica's rate, or the lag."""
    told = app.events("Scaling")
    print(f"told: {told}")
    return any(change in said and "records" in said for said in told)


def test_a_burst_brings_replicas_and_its_end_takes_them(
    operated: Namespace, pods_kafka: KafkaConfig, tmp_path: Path
) -> None:
    spec = (
        f"kafka: {{bootstrapServers: '{pods_kafka.bootstrap_servers}'}}\n"
        "  executor: {resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}}\n"
        "  autoscaling: {minReplicas: 1, maxReplicas: 3, stabilisation: 10s, "
        f"lag: {{recordsPerReplica: {FOR_EACH}}}}}\n"
        f"  {SLOW_CODE}"
    )
    with (
        Bench(pods_kafka, tmp_path, "bursts", SLOW + ECHO, parallelism=SLOW_PARALLELISM, spec=spec) as bench,
        Proof(bench, load := bench.load(seed=1102)) as proof,
    ):
        app = App(operated, bench.prefix)
        app.apply(bench.manifest.read_text())
        load.send(100)
        app.await_ready()
        app.await_executors(1)
        driver = app.driver()["metadata"]["uid"]
        proof.await_caught_up(app)

        def behind() -> int:
            ends = bench.admin.end_offsets(bench.topics["numbers"])
            return sum(ends.values()) - sum(proof.offsets.seen.get((bench.topics["numbers"], p), 0) for p in ends)

        def scaled_up() -> bool:
            proof.require_sound()
            app.require_alive()
            if behind() < 3 * FOR_EACH:  # the burst lasts as long as it takes, however fast the machine is
                load.send(BURST)
            return bool(app.status().get("desiredReplicas") == 3)

        try:
            until(scaled_up, 240, "three replicas are wanted, by two steps that settle", every=1)
        finally:
            print(f"autoscaling: {app.status().get('autoscaling')}, {app.condition('ScalingActive')}")
        assert app.status()["lag"]["total"] > 0
        app.await_executors(3)
        assert why(app, "→ 3 replicas: ")

        proof.await_caught_up(app)
        app.await_executors(1)
        active = app.condition("ScalingActive")
        assert active["status"] == "True", active
        assert why(app, "→ 1 replicas: ")
        assert app.driver()["metadata"]["uid"] == driver
        assert app.status()["restarts"] == 0
        proof.finish(app)
