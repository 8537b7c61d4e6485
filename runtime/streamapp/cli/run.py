# SPDX-License-Identifier: Apache-2.0
"""`streamapp run`: an app on this machine."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamapp.cli.ending import ending
from streamapp.cli.options import add_adopt, add_kafka, add_state_dir, is_kafka_named, memory, port_number, positive
from streamapp.cli.progress import ProgressLine
from streamapp.errors import InputError, ManifestError
from streamapp.state_folder import CREDENTIALS, broker_command, default_state_dir, occupied, publish

if TYPE_CHECKING:
    from streamapp.kafka.config import KafkaConfig
    from streamapp.manifest import Manifest
    from streamapp.spark.session import Place

HELP = "run an app here"
DESCRIPTION = """Runs the app of FILE on this machine until Ctrl-C, or with --until-caught-up to the end of
the input. With no Kafka named, here or in the manifest, it starts an embedded one, makes the topics the app
needs there, and says its address; on a Kafka of yours it makes its internal topics only. All that must
survive is in Kafka: a killed run goes on where its last committed epoch ended."""
EXAMPLE = """  streamapp run word-count.yaml
  streamapp run word-count.yaml --bootstrap-servers localhost:9092 --until-caught-up"""


_BROKER_SECONDS = 2.0
"""For an orderly end of the embedded broker, within the ten that a stop may take; after a hard one it reads more of its
log at the next start."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a manifest; - for stdin")
    parser.add_argument("--until-caught-up", action="store_true", help="process what is in the topics now, then exit 0")
    parser.add_argument(
        "--close-windows",
        action="store_true",
        help="with --until-caught-up: close the windows that are open at the end",
    )
    parser.add_argument(
        "--replicas", type=positive, metavar="N", help="executor processes (default: threads of one process)"
    )
    parser.add_argument("--port", type=port_number, default=0, help="of the live interface (default: a free one)")
    parser.add_argument(
        "--heap",
        metavar="SIZE",
        type=memory,
        default="512m",
        help="memory of the embedded broker (default: %(default)s)",
    )
    add_adopt(parser.add_argument)
    add_kafka(parser, "the manifest's, else an embedded broker")
    add_state_dir(parser, "where state and the embedded broker's data are kept (default: .streamapp/NAME)")


def run(options: argparse.Namespace) -> int:
    from streamapp.cli.manifests import plan_of
    from streamapp.kafka.access import make_ready
    from streamapp.local import load_manifest, require_modules

    manifest = load_manifest(options.file)
    require_modules(manifest, options.file)
    plan = plan_of(manifest, options.file)
    until_caught_up = options.until_caught_up or plan.run == "untilCaughtUp"
    if options.close_windows:
        if not until_caught_up:
            raise InputError("--close-windows is for runs that end; add --until-caught-up")
        plan = replace(plan, close_windows=True)
    state_dir: Path = options.state_dir or default_state_dir(plan.name)

    @functools.cache
    def engine() -> Place:
        """Where Spark runs; its Java process, which takes as long to start as a broker, is there."""
        from streamapp.spark.app import place_here
        from streamapp.spark.session import start_engine

        place = place_here(plan, state_dir, options.replicas)
        start_engine(place)
        return place

    with occupied(state_dir), _kafka(options, manifest, state_dir, meanwhile=engine) as (kafka, embedded):
        client_config = _credentials(kafka, state_dir)
        publish(state_dir, kafka.bootstrap_servers, url=None)
        made = make_ready(kafka, plan, create_all=embedded, file=str(options.file))
        for spec in made:
            if not spec.internal:
                _say(f"created topic {spec.name}")

        from streamapp.spark.app import Options, run_app
        from streamapp.spark.jvm import end_jvm

        _say(f"starting {plan.name} (process {os.getpid()}) ...")
        line = ProgressLine(sys.stderr)

        def on_started(url: str) -> None:
            publish(state_dir, kafka.bootstrap_servers, url)
            _say(f"{plan.name} runs; live: {url}; Ctrl-C stops it")

        ends: list[Mapping[str, Any]] = []
        try:
            code = run_app(
                plan,
                kafka,
                Options(
                    state_dir=state_dir,
                    until_caught_up=until_caught_up,
                    port=options.port,
                    client_config=client_config,
                    place=engine(),
                    adopted=options.adopt,
                ),
                on_started=on_started,
                on_progress=line.show,
                on_caught_up=ends.append,
            )
        except ManifestError as error:
            raise manifest.located(error) from error
        finally:
            line.end()
            end_jvm()
        for status in ends:
            _say(ending(plan, status))
            if embedded:
                _say(f"to read the topics: {broker_command(state_dir)}, and consume in a second shell")
        return code


@contextlib.contextmanager
def _kafka(
    options: argparse.Namespace, manifest: Manifest, state_dir: Path, meanwhile: Callable[[], object]
) -> Iterator[tuple[KafkaConfig, bool]]:
    """Where Kafka is: the command line says, else the manifest; else it is embedded (True).

    An address alone on the command line leaves the manifest's TLS and SASL as they are. `meanwhile` is called while the
    embedded one starts.
    """
    from streamapp.cli.manifests import kafka_of_manifest
    from streamapp.kafka.broker import EmbeddedBroker
    from streamapp.kafka.config import KafkaConfig

    if options.kafka_config is None and manifest.spec.kafka is not None:
        yield kafka_of_manifest(manifest, options.file, options.bootstrap_servers), False
    elif is_kafka_named(options):
        yield KafkaConfig.load(options.bootstrap_servers, options.kafka_config), False
    else:
        broker = EmbeddedBroker(state_dir / "broker", heap=options.heap)
        try:
            broker.start(meanwhile=meanwhile)
            _say(f"embedded Kafka broker at {broker.bootstrap_servers}, data in {broker.data_dir}")
            yield KafkaConfig(broker.bootstrap_servers), True
        finally:
            broker.stop(_BROKER_SECONDS)


def _credentials(kafka: KafkaConfig, state_dir: Path) -> Path | None:
    """The file by which the JVM side gets TLS and SASL settings: secrets belong in no process list or log."""
    file = state_dir / CREDENTIALS
    file.unlink(missing_ok=True)
    if not kafka.properties:
        return None
    kafka.write(file)
    return file.absolute()


def _say(line: str) -> None:
    print(line, flush=True)
