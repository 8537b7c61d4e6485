# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and what they mean."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from streamapp.here.settings import is_memory
from streamapp.owner import checked_owner
from streamapp.state_folder import CREDENTIALS, find_run

if TYPE_CHECKING:
    from streamapp.kafka.config import KafkaConfig


def add_kafka(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT", help=f"where Kafka is (default: {default})")
    parser.add_argument(
        "--kafka-config",
        metavar="FILE",
        type=Path,
        help="client properties for TLS and SASL, by Kafka's own names",
    )


def add_state_dir(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--state-dir", metavar="DIR", type=Path, help=what)


def add_running_kafka(parser: argparse.ArgumentParser, before: str = "") -> None:
    """Adds options for commands that use the Kafka of a run in this folder by default, or `before` that."""
    add_kafka(parser, before + "that of the one app or broker running in this folder's .streamapp/")
    add_state_dir(parser, "take the address of the app or broker running with this --state-dir")


def is_kafka_named(options: argparse.Namespace) -> bool:
    return options.bootstrap_servers is not None or options.kafka_config is not None


def kafka_of(options: argparse.Namespace) -> KafkaConfig:
    """The named Kafka, else that of the app running here."""
    from streamapp.kafka.config import KafkaConfig

    if is_kafka_named(options):
        return KafkaConfig.load(options.bootstrap_servers, options.kafka_config)
    run = find_run(options.state_dir)
    credentials = run.state_dir / CREDENTIALS
    return KafkaConfig.load(run.bootstrap_servers, credentials if credentials.exists() else None)


def add_adopt(add: Callable[..., object]) -> None:
    add(
        "--adopt",
        metavar="OWNER",
        type=owner,
        help="go on with the state of the previous owner, NAMESPACE/NAME/UID or local/NAME, and own it from then on",
    )


def owner(text: str) -> str:
    """An owner of an applicationId, in the words of its metadata topic."""
    try:
        return checked_owner(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return number


def port_number(text: str) -> int:
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return number


def memory(text: str) -> str:
    if not is_memory(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no size of memory; write e.g. 512m or 2g")
    return text


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return number
