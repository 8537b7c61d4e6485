# SPDX-License-Identifier: Apache-2.0
"""Runs an app on this machine, until Ctrl-C or to the end of the input, and shows its progress."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamapp.errors import InputError, ManifestError
from streamapp.here.ending import ending
from streamapp.here.manifests import kafka_of_manifest, plan_of
from streamapp.here.progress import ProgressLine
from streamapp.here.settings import Settings
from streamapp.kafka.access import make_ready
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig
from streamapp.local import require_modules
from streamapp.manifest import Manifest
from streamapp.plan import Plan
from streamapp.state_folder import CREDENTIALS, broker_command, default_state_dir, occupied, publish

if TYPE_CHECKING:
    from streamapp.spark.session import Place

_BROKER_SECONDS = 2.0
"""The time for an orderly end of the embedded broker, within the ten seconds that a stop may take. After a hard end it
reads more of its log at the next start."""


def run_here(manifest: Manifest, file: Path, settings: Settings) -> None:
    """Runs an app until Ctrl-C, SIGTERM or the end of the input.

    If neither the settings nor the manifest name a Kafka, an embedded one runs as long as the app, and topics are made
    there.

    Args:
        manifest: the app's manifest.
        file: the manifest's file. Files that it names are in the same folder, and messages begin with its name.
        settings: the settings of the run.

    Raises:
        InputError, ManifestError: the input is wrong.
        StreamAppError: the app cannot go on.
    """
    # Only this process gets Ctrl-C and SIGTERM.
    if threading.current_thread() is not threading.main_thread():
        raise InputError("an app runs in the main thread of a process; this is another one: run it there")
    require_modules(manifest, file)
    plan = plan_of(manifest, file)
    settings, plan = _bounded(settings, plan)
    state_dir = settings.state_dir or default_state_dir(plan.name)

    @functools.cache
    def engine() -> Place:
        """The place where Spark runs, with its Java process started, which takes as long as a broker's start."""
        from streamapp.spark.app import place_here
        from streamapp.spark.session import start_engine

        place = place_here(plan, state_dir, settings.replicas)
        start_engine(place)
        return place

    with occupied(state_dir), _kafka(settings, manifest, file, state_dir, meanwhile=engine) as (kafka, embedded):
        client_config = _credentials(kafka, state_dir)
        publish(state_dir, kafka.bootstrap_servers, url=None)
        made = make_ready(kafka, plan, create_all=embedded, file=str(file))
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
            run_app(
                plan,
                kafka,
                Options(
                    state_dir=state_dir,
                    until_caught_up=settings.until_caught_up,
                    port=settings.port,
                    client_config=client_config,
                    place=engine(),
                    adopted=settings.adopted,
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


def _bounded(settings: Settings, plan: Plan) -> tuple[Settings, Plan]:
    """The settings and the plan, with the same end of the run, which either of them may ask for."""
    settings = replace(settings, until_caught_up=settings.until_caught_up or plan.run == "untilCaughtUp")
    if settings.close_windows and not settings.until_caught_up:
        raise InputError("to close windows is for runs that end; add --until-caught-up (Python: until_caught_up=True)")
    return settings, replace(plan, close_windows=True) if settings.close_windows else plan


@contextlib.contextmanager
def _kafka(
    settings: Settings, manifest: Manifest, file: Path, state_dir: Path, meanwhile: Callable[[], object]
) -> Iterator[tuple[KafkaConfig, bool]]:
    """The Kafka of the settings, else of the manifest, else an embedded one, and whether it is embedded.

    An address alone in the settings leaves the manifest's TLS and SASL as they are. `meanwhile` is called while the
    embedded one starts.
    """
    if settings.kafka_config is None and manifest.spec.kafka is not None:
        yield kafka_of_manifest(manifest, file, settings.bootstrap_servers), False
    elif settings.bootstrap_servers is not None or settings.kafka_config is not None:
        yield KafkaConfig.load(settings.bootstrap_servers, settings.kafka_config), False
    else:
        broker = EmbeddedBroker(state_dir / "broker", heap=settings.heap)
        try:
            broker.start(meanwhile=meanwhile)
            _say(f"embedded Kafka broker at {broker.bootstrap_servers}, data in {broker.data_dir}")
            yield KafkaConfig(broker.bootstrap_servers), True
        finally:
            broker.stop(_BROKER_SECONDS)


def _credentials(kafka: KafkaConfig, state_dir: Path) -> Path | None:
    """The file with the TLS and SASL settings for the JVM side: secrets must not appear in a process list or log."""
    file = state_dir / CREDENTIALS
    file.unlink(missing_ok=True)
    if not kafka.properties:
        return None
    kafka.write(file)
    return file.absolute()


def _say(line: str) -> None:
    print(line, flush=True)
