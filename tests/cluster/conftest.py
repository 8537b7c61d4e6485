# SPDX-License-Identifier: Apache-2.0
"""The operator, and a broker that both pods and tests reach."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import policies
from cluster.access import Cluster
from cluster.install import install
from cluster.namespace import Namespace
from cluster.word_count import WordCount
from lib.definitions import await_served
from lib.left_out import or_left_out
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig


@pytest.fixture(scope="session")
def definition(cluster: Cluster, root: Path) -> bool:
    """Makes the cluster know StreamApps. Whether that was done here, and the definition is not somebody else's."""
    ours = not cluster.has("crd/streamapps.streamapp.dev")
    cluster.apply(root / "crds" / "streamapp.yaml")
    await_served(cluster.kubectl, "streamapps.streamapp.dev")
    return ours


@pytest.fixture
def operated(
    namespace: Namespace, definition: bool, operator_image: str, runtime_image: str, host_address: str
) -> Iterator[Namespace]:
    """A namespace with an operator of its own, which looks after nothing else. Its Kafka is on this machine, and its
    NetworkPolicies have an effect where the cluster is ours."""
    prefix = 128 if ":" in host_address else 32
    kafka = [{"to": [{"ipBlock": {"cidr": f"{host_address}/{prefix}"}}]}]
    with policies.kept(namespace):
        install(namespace, "--set-json", f"networkPolicy.extraEgress={json.dumps(kafka)}")
        yield namespace


@pytest.fixture(scope="session")
def host_address(cluster: Cluster) -> str:
    """The address of this machine for pods."""
    return or_left_out(cluster.host_address)


@pytest.fixture(scope="session")
def pods_kafka(host_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConfig]:
    """One broker on this machine, at an address that pods reach too; each test has names of its own."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), host=host_address) as broker:
        yield KafkaConfig(broker.bootstrap_servers)


@pytest.fixture
def words(operated: Namespace, pods_kafka: KafkaConfig, root: Path) -> WordCount:
    """The word count, not applied yet."""
    return WordCount(operated, pods_kafka, root)
