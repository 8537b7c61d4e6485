# SPDX-License-Identifier: Apache-2.0
"""The operator connects only to addresses that its settings allow."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from lib.simulated import Simulation
from streamapp.plan import KafkaSettings
from streamapp_operator.decide.problems import mistakes_of
from streamapp_operator.manifest.addresses import RefusedAddress, problems_of_addresses
from streamapp_operator.manifest.kafka_login import Keys, config_of
from streamapp_operator.observe.lag import Lags
from streamapp_operator.settings import Settings

CLOUD = "169.254.169.254"
NO_KEYS = Keys({}, {})


def with_kafka(kafka: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(WORD_COUNT)
    body["metadata"] |= {"namespace": "shop", "uid": "1"}
    body["spec"] |= {"kafka": kafka, "autoscaling": {"maxReplicas": 2}}
    return body


@pytest.mark.parametrize(
    "servers",
    [
        f"{CLOUD}:80",
        f"kafka:9092,{CLOUD}:80",
        "[fe80::1]:9092",
        "0.0.0.0:1",
        "0xa9fea9fe:80",
        "[64:ff9b::a9fe:a9fe]:80",
        "[fd00:ec2::254]:80",
        "168.63.129.16:80",
    ],
)
def test_addresses_of_no_machine_are_refused_by_default(servers: str) -> None:
    (problem,) = problems_of_addresses(KafkaSettings(servers), Settings())
    assert "apps.allowedBrokers" in str(problem)
    with pytest.raises(RefusedAddress):
        config_of(KafkaSettings(servers), NO_KEYS, Settings())


@pytest.mark.parametrize("servers", ["kafka:9092", "10.0.0.7:9092,[fd00::7]:9092", "b-1.kafka.example:9098"])
def test_brokers_may_be_anywhere_else_by_default(servers: str) -> None:
    assert config_of(KafkaSettings(servers), NO_KEYS, Settings()).bootstrap_servers == servers


def test_brokers_are_those_that_the_chart_allows() -> None:
    settings = Settings(allowed_brokers=("*.kafka.example:9092", "10.0.0.7"))
    assert not list(problems_of_addresses(KafkaSettings("a.kafka.example:9092,10.0.0.7:1"), settings))
    (problem,) = problems_of_addresses(KafkaSettings("a.kafka.example:9092,db.internal:5432"), settings)
    assert str(problem) == (
        "`kafka.bootstrapServers`: the operator connects to *.kafka.example:9092, 10.0.0.7 only "
        '(in "db.internal:5432"); use another one, or '
        "have 'db.internal:5432' added to apps.allowedBrokers of the operator's chart"
    )


def test_tokens_are_asked_of_nobody_by_default() -> None:
    kafka = KafkaSettings("kafka:9092", sasl_mechanism="OAUTHBEARER", token_endpoint="https://login.example/token")
    (problem,) = problems_of_addresses(kafka, Settings())
    assert "have 'login.example:443' added to apps.allowedTokenEndpoints" in str(problem)
    for allowed, count in (("login.example", 0), ("*.example:443", 0), ("login.example:80", 1), ("example", 1)):
        assert len(list(problems_of_addresses(kafka, Settings(allowed_token_endpoints=(allowed,))))) == count


def test_an_app_that_may_not_connect_is_told_and_its_lag_is_not_looked_for() -> None:
    body = with_kafka({"bootstrapServers": f"{CLOUD}:80"})
    (line,) = mistakes_of(body, None, Settings())
    assert line.startswith("`kafka.bootstrapServers`: this is no address of a machine that others may reach")
    position, why = Lags().of(body, {})
    assert position is None
    assert "apps.allowedBrokers" in why


def test_an_app_that_may_not_connect_does_not_run() -> None:
    app = Simulation()
    kafka = {"bootstrapServers": f"{CLOUD}:80"}
    spec = {**yaml.safe_load(WORD_COUNT)["spec"], "kafka": kafka}
    app.apply(30, **spec)
    told = app.condition("TopologyValid")
    assert told["status"] == "False"
    assert "apps.allowedBrokers" in told["message"]
    assert app.driver is None
    app.settings = Settings(allowed_brokers=(CLOUD,))
    app.run(60)
    assert app.running != ""
    app.settings = Settings()
    app.run(30)
    assert app.running != "", "what runs is left alone"
    app.apply(30, **spec, suspend=True)
    assert app.running == ""
