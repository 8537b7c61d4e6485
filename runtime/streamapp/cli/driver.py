# SPDX-License-Identifier: Apache-2.0
"""`streamapp driver`: an app in a pod of a cluster. The operator starts it; people type `streamapp run`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from streamapp.cli.options import add_adopt, port_number, positive
from streamapp.errors import InputError, StreamAppError

HELP = "run an app in a pod, as the operator's driver pods do"
DESCRIPTION = """Runs the plan of FILE in the pod of a cluster until SIGTERM, with executors in pods of their own.
With `run: untilCaughtUp` it ends with 0 at the end of the input, and with 143 when SIGTERM comes first.
The operator starts this command and gives it everything it needs; on your own machine use `streamapp run`."""
EXAMPLE = """  streamapp driver /etc/streamapp/config/plan.json --owner default/word-count/UID ..."""

TOKEN, RPC_SECRET = "token", "rpc-secret"
"""Files in the folder of secrets: the live interface's bearer token, and the secret that driver and executors share."""
_LONGEST_WORD = 2000
"""The most characters of an error. Kubernetes keeps a text's last 4,096 bytes, and the operator needs the beginning."""
STOPPED_EARLY = 143
"""The exit code of a process that SIGTERM has ended. If it were 0 after a node's drain, a Job would count as done."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="the plan, as JSON")
    add = parser.add_argument_group("the app").add_argument
    add("--owner", required=True, metavar="NAMESPACE/NAME/UID", help="the owner of the applicationId")
    add_adopt(add)
    add("--kafka-config", metavar="FILE", type=Path, help="client properties for TLS and SASL")
    add("--secrets", required=True, metavar="DIR", type=Path, help=f"has the files {TOKEN} and {RPC_SECRET}")
    add("--state-dir", required=True, metavar="DIR", type=Path, help="for local files, lost with the pod")
    add(
        "--stop-seconds",
        default=10,
        type=positive,
        metavar="N",
        help="the longest time for a stop: the pod's grace period",
    )
    add("--termination-log", metavar="FILE", type=Path, help="written at the end: the error, or the counts of the run")
    add = parser.add_argument_group("this pod").add_argument
    add("--namespace", required=True)
    add("--pod", required=True, metavar="NAME")
    add("--address", required=True, metavar="IP")
    add("--heap", required=True, type=positive, metavar="MIB", help="memory of the JVM")
    add("--port", required=True, type=port_number, help="of the live interface")
    add("--rpc-port", required=True, type=port_number, metavar="PORT", help="for executors")
    add("--block-port", required=True, type=port_number, metavar="PORT", help="of blocks, here and on executors")
    add = parser.add_argument_group("executors").add_argument
    add("--executor-template", required=True, metavar="FILE", type=Path, help="their pod template")
    add("--executor-image", required=True, metavar="IMAGE")
    add("--executor-pull-policy", default="IfNotPresent", metavar="POLICY")
    add("--executor-prefix", required=True, metavar="NAME", help="the beginning of their names")
    add("--executor-processors", required=True, type=positive, metavar="N", help="tasks that compute at a time")
    add("--executor-cpu", required=True, metavar="QUANTITY", help="CPU to ask for")
    add("--executor-cpu-limit", metavar="QUANTITY")
    add("--executor-heap", required=True, type=positive, metavar="MIB", help="memory of the JVM")
    add("--executor-overhead", required=True, type=positive, metavar="MIB", help="memory beyond the heap")


def run(options: argparse.Namespace) -> int:
    try:
        return _run(options)
    except StreamAppError as error:
        _leave_word(options.termination_log, error)
        raise


def _run(options: argparse.Namespace) -> int:
    from streamapp.kafka.access import make_ready
    from streamapp.kafka.config import KafkaConfig
    from streamapp.local import read_text
    from streamapp.plan import Plan
    from streamapp.spark.app import Options, run_app
    from streamapp.spark.jvm import end_jvm
    from streamapp.spark.kubernetes import DriverPod, Executors, pods_of
    from streamapp.spark.session import fresh_work_dir, start_engine

    plan = Plan.from_json(read_text(options.file))
    if plan.kafka.bootstrap_servers is None:
        raise InputError("the plan does not say where Kafka is; set spec.kafka.bootstrapServers")
    if (plan.kafka.tls or plan.kafka.sasl_mechanism) and options.kafka_config is None:
        raise InputError("spec.kafka asks for TLS or SASL, and --kafka-config is missing; add --kafka-config FILE")
    kafka = KafkaConfig.load(plan.kafka.bootstrap_servers, options.kafka_config)
    driver = DriverPod(
        name=options.pod,
        namespace=options.namespace,
        address=options.address,
        rpc_port=options.rpc_port,
        block_port=options.block_port,
        heap_mib=options.heap,
        rpc_secret_file=options.secrets / RPC_SECRET,
    )
    executors = Executors(
        template=options.executor_template,
        image=options.executor_image,
        image_pull_policy=options.executor_pull_policy,
        prefix=options.executor_prefix,
        processors=options.executor_processors,
        cpu=options.executor_cpu,
        cpu_limit=options.executor_cpu_limit,
        heap_mib=options.executor_heap,
        overhead_mib=options.executor_overhead,
    )
    pods = pods_of(driver, executors, plan.replicas, plan.max_parallelism)
    place = replace(pods, work_dir=fresh_work_dir(options.state_dir))
    bounded = plan.run == "untilCaughtUp"
    ends: list[Mapping[str, Any]] = []
    try:
        with ThreadPoolExecutor() as meanwhile:
            topics = meanwhile.submit(make_ready, kafka, plan)
            start_engine(place)
        for made in topics.result():
            print(f"created topic {made.name}", flush=True)
        run_app(
            plan,
            kafka,
            Options(
                state_dir=options.state_dir,
                until_caught_up=bounded,
                port=options.port,
                client_config=options.kafka_config,
                place=place,
                owner=options.owner,
                adopted=options.adopt,
                executor_template=options.executor_template,
                # All addresses, so that `kubectl port-forward`, which connects from inside the pod, reaches it too.
                host="::" if ":" in options.address else "0.0.0.0",
                token_file=options.secrets / TOKEN,
                stop_seconds=options.stop_seconds,
            ),
            on_started=lambda url: print(f"{plan.name} runs; live: {url}", flush=True),
            on_caught_up=ends.append,
        )
    finally:
        end_jvm()
    if not bounded:
        return 0
    if not ends:
        print(f"{plan.name} was stopped before the end of its input", flush=True)
        return STOPPED_EARLY
    _leave_result(options.termination_log, plan.name, ends[0])
    return 0


def _leave_word(file: Path | None, error: StreamAppError) -> None:
    """Writes the error to the file that Kubernetes keeps when the container ends. The operator reads the first word."""
    if file is not None:
        with suppress(OSError):
            file.write_text(f"{error.cause}: {error}"[:_LONGEST_WORD])


def _leave_result(file: Path | None, name: str, status: Mapping[str, Any]) -> None:
    """Writes the result of a run to the end to the same file, for the operator."""
    result = json.dumps({"caughtUp": True, "records": status["recordsRead"], "lag": status.get("totalLag")})
    print(f"{name} has caught up: {result}", flush=True)
    if file is not None:
        with suppress(OSError):
            file.write_text(result)
