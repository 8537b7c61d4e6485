# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests. The broker is one for the session: tests keep apart by topic names of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lib.broker import new_topic
from lib.faults import quick_broker
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """One real broker, shared. A test that stops, pauses or reconfigures a broker starts one of its own."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def kafka(broker: EmbeddedBroker) -> KafkaConfig:
    return KafkaConfig(broker.bootstrap_servers)


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker of the test file's own, for faults; it gives up dead producers soon."""
    with quick_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def own_kafka(own_broker: EmbeddedBroker) -> KafkaConfig:
    return KafkaConfig(own_broker.bootstrap_servers)


@pytest.fixture
def topic(kafka: KafkaConfig, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topics named after the test: `topic()`, `topic(partitions=4)`."""

    def make(partitions: int = 1, **config: str) -> str:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        return new_topic(kafka, request.node.name, partitions, settings)

    return make


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return Path(__file__).resolve().parent.parent
