# SPDX-License-Identifier: Apache-2.0
"""Rules and dashboards on a real Prometheus."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from cluster.packages import program
from lib.apiserver import ApiServer
from lib.app import ECHO, TOTALS, WINDOWS, Bench
from lib.broker import in_order
from lib.chart import RULES, alerts, queries, variables
from lib.faults import alter
from lib.left_out import or_left_out
from lib.operator import RUNNING, Apps
from lib.prometheus import Prometheus
from lib.wait import until
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.ports import free_ports
from streamapp_operator.cluster.kube import connect_by_config
from streamapp_operator.cluster.lease import Lease
from streamapp_operator.controller import Controller
from streamapp_operator.health import serve

pytestmark = pytest.mark.cluster  # needs a program that is installed only there


@pytest.fixture(scope="session")
def promtool() -> str:
    return or_left_out(partial(program, "promtool"))


def check(promtool: str, *arguments: str) -> None:
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_can_be_read(promtool: str) -> None:
    check(promtool, "check", "rules", str(RULES))


def test_every_query_can_be_read(promtool: str, tmp_path: Path) -> None:
    everything = [*queries(), *variables()]
    rules = [{"record": f"query:{i}", "expr": plain(query)} for i, (_, query) in enumerate(everything)]
    assert rules
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    check(promtool, "check", "rules", str(tmp_path / "rules.yaml"))


def test_alerts_fire_when_they_should(promtool: str, tmp_path: Path) -> None:
    text = (Path(__file__).parent / "alerts.yaml").read_text()
    tested = {case["alertname"] for test in yaml.safe_load(text)["tests"] for case in test["alert_rule_test"]}
    assert tested == {alert["alert"] for alert in alerts()}
    (tmp_path / "alerts.yaml").write_text(text.replace("[RULES]", f"[{RULES}]"))
    check(promtool, "test", "rules", str(tmp_path / "alerts.yaml"))


def plain(query: str) -> str:
    """The query without Grafana's variables."""
    return re.sub(r"\$(namespace|name)\b", ".*", query.replace("$__rate_interval", "5m"))


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_every_query_returns_data_about_a_running_app_and_its_operator(
    promtool: str, api: ApiServer, kafka: KafkaConfig, tmp_path: Path
) -> None:
    with Bench(kafka, tmp_path, "scraped", TOTALS + ECHO + WINDOWS, spec="onBadRecord: Drop") as bench:
        alter(kafka, bench.topics["numbers"], retention_ms="3600000")  # the tests' broker keeps everything
        load = bench.load(seed=1, rate=200)
        first = bench.start()
        load.start()
        send_bad_record(kafka, bench.topics["numbers"])
        first.await_work()
        assert first.stop() == 0
        app = bench.start(state="other")  # restores all of its state
        app.await_work()
        with operator_metrics(api, tmp_path) as address:
            targets = {urlsplit(app.address).netloc: {"namespace": "shop"}, address: {"pod": "operator"}}
            with Prometheus(tmp_path, targets, (RULES,)) as prometheus:
                for place, query in (*queries(), *variables()):
                    for part in parts(place, query):
                        until(
                            lambda part=part: prometheus.ask(part),  # type: ignore[misc]
                            30,
                            f"{place}: data for {part}",
                            every=0.5,
                        )
                until(
                    lambda: {rule["health"] for rule in prometheus.rules()} == {"ok"},
                    30,
                    "every rule has been evaluated",
                    every=0.5,
                )
        load.stop()


def send_bad_record(kafka: KafkaConfig, topic: str) -> None:
    producer = in_order(kafka)
    producer.produce(topic, b"no JSON", b"key")
    assert producer.flush(30) == 0


@contextmanager
def operator_metrics(api: ApiServer, folder: Path) -> Iterator[str]:
    """The address of an operator that looks after one app, which autoscales."""
    namespace, config = "scraped", str(api.kubeconfig)
    api.kubectl("create", "namespace", namespace)
    apps = Apps(connect_by_config(config, None)[0], namespace)
    name = apps.create(autoscaling={"maxReplicas": 4})
    lease = Lease(connect_by_config(config, None)[0], namespace, "operator", "one")
    controller = Controller(connect_by_config(config, None)[0], apps.settings, lease)
    (port,) = free_ports(1)
    server = serve(controller, lease, port)
    controller.start()
    try:
        controller.queue.add((namespace, name))
        until(lambda: apps.kube.get("Secret", namespace, f"{name}-credentials"), 30, "the app has its objects")
        with apps.driver_says(RUNNING, folder):
            until(lambda: "lag" in apps.status(), 60, "the status has numbers")
            controller.metrics.apps.see((namespace, name), apps.get("StreamApp", name))
            yield f"127.0.0.1:{port}"
    finally:
        controller.stop()
        server.stop()


def parts(place: str, query: str) -> list[str]:
    """The parts of a query that must have data. A panel's query: as it is. An alert, which has no data when all is
    well: the expressions that it compares, for any value of its labels, over a time that the test has."""
    query = plain(query).replace("[5m]", "[30s]").replace("[15m:1m]", "[30s:5s]")
    if ":" in place:
        return [query]
    query = re.sub(r"absent\((.+?)\)$", r"\1", query.strip())
    operands = re.split(r"\s(?:and|or|unless|==|!=|>=|<=|>|<)\s", re.sub(r'(=|!=|=~|!~)"[^"]*"', '!=""', query))
    return [operand.strip() for operand in operands if re.search("[a-z]", operand)]
