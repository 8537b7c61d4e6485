# SPDX-License-Identifier: Apache-2.0
"""`kubectl apply` of a wrong manifest is refused with the words of `streamapp validate`."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import yaml

from lib.apiserver import ApiServer
from lib.operator import WORD_COUNT
from streamapp.errors import ManifestError
from streamapp_operator.app import read_app

pytestmark = pytest.mark.cluster

LINES = {"name": "lines", "stream": {"topic": "t"}}
KAFKA = {"bootstrapServers": "kafka:9092"}
OUT = {"name": "out", "from": "lines", "to": {"topic": "o"}}


def manifest(name: str = "app", **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = copy.deepcopy(yaml.safe_load(WORD_COUNT))
    body["metadata"]["name"] = name
    for field, value in spec.items():
        body["spec"].pop(field, None) if value is None else body["spec"].update({field: value})
    return body


def nodes(*more: dict[str, Any]) -> dict[str, Any]:
    return {"topology": [LINES, *more, OUT]}


def refusal(api: ApiServer, body: dict[str, Any], namespace: str) -> str:
    return api.kubectl(
        "apply", f"--namespace={namespace}", "-f", "-", text=yaml.safe_dump(body, sort_keys=False), check=False
    )


def complaints(body: dict[str, Any]) -> list[str]:
    """Of `streamapp validate`."""
    try:
        read_app(body)
    except ManifestError as error:
        return [str(problem) for problem in error.problems]
    return []


def without_values(words: str) -> str:
    """CEL cannot name a number, nor a name out of a list: see crd/rules.py."""
    return re.sub(r"\s+", " ", re.sub(r" ?\d+", "", words)).strip()


WRONG = {
    "no Kafka": (
        manifest(kafka=None),
        "`kafka` is missing; say where Kafka is, e.g. kafka: {bootstrapServers: kafka:9092}",
    ),
    "replicas twice": (
        manifest(replicas=2, autoscaling={"maxReplicas": 3}),
        "`replicas` and `autoscaling` are both there; remove one: autoscaling sets the replicas",
    ),
    "bounds": (
        manifest(autoscaling={"minReplicas": 5, "maxReplicas": 3}),
        "minReplicas is more than maxReplicas; make minReplicas the smaller one",
    ),
    "scheduled bounds": (
        manifest(autoscaling={"maxReplicas": 3, "schedule": [{"cron": "0 8 * * *", "minReplicas": 4}]}),
        "minReplicas is more than maxReplicas; make minReplicas the smaller one",
    ),
    "schedule": (manifest(schedule="0 8 * * *"), "`schedule` is for apps that stop; add run: untilCaughtUp"),
    "unit": (
        manifest(epochInterval="5 parsecs"),
        "'5 parsecs' is not a duration: no unit `parsecs`; write e.g. 100ms, 5s, 5 minutes, 7 days",
    ),
    "no unit": (
        manifest(epochInterval="soon"),
        "'soon' is not a duration: a whole number and a unit; write e.g. 100ms, 5s, 5 minutes, 7 days",
    ),
    "no time": (manifest(idleTimeout="0s"), "'0s' is no time at all; write e.g. 5 minutes"),
    "two operations": (
        manifest(**nodes({"name": "both", "filter": "true", "select": {"a": "value"}})),
        "node 'both': has `filter` and `select`, and a node has one operation; make a node of each",
    ),
    "three operations": (
        manifest(**nodes({"name": "all", "filter": "true", "select": {"a": "value"}, "keyBy": ["a"]})),
        "node 'all': has `filter` and `select` and `keyBy`, and a node has one operation; make a node of each",
    ),
    "no operation": (
        manifest(**nodes({"name": "none", "from": "lines"})),
        "node 'none': has no operation; add one of: stream, filter, select, with, flatMap, keyBy, merge, branch, "
        "groupBy, join, python, to",
    ),
    "name": (
        manifest(**nodes({"name": "a b", "from": "lines", "filter": "true"})),
        "'a b' cannot be part of a topic's name; use letters, digits, `.`, `_` and `-`",
    ),
    "no topic": (
        manifest(topology=[{"name": "lines", "stream": {"value": "text"}}, OUT]),
        "node 'lines': `stream`: `topic` is missing; name the topic to read, e.g. topic: orders",
    ),
    "two topics": (
        manifest(topology=[{"name": "lines", "stream": {"topic": "t", "pattern": "u.*"}}, OUT]),
        "node 'lines': `stream`: there are `topic` and `pattern`; keep one of them",
    ),
    "window of nothing": (
        manifest(**nodes({"name": "w", "from": "lines", "filter": "true", "window": {"tumbling": "5s"}})),
        "node 'w': `window` is only for `groupBy`; remove `window`",
    ),
    "store of nothing": (
        manifest(**nodes({"name": "w", "from": "lines", "filter": "true", "store": "s"})),
        "node 'w': `store` is only for `groupBy` or `join`; remove `store`",
    ),
    "final without window": (
        manifest(
            **nodes(
                {"name": "w", "from": "lines", "groupBy": ["value"], "aggregate": {"n": "count(*)"}, "emit": "final"}
            )
        ),
        "node 'w': `emit`: `emit: final` needs a `window`: without one no result is ever final; "
        "add e.g. window: {tumbling: 5 minutes}, or emit: updates",
    ),
    "grace without window": (
        manifest(
            **nodes({"name": "w", "from": "lines", "groupBy": ["value"], "aggregate": {"n": "count(*)"}, "grace": "5s"})
        ),
        "node 'w': `grace` is there without a `window`; add e.g. window: {tumbling: 5 minutes}",
    ),
    "TLS files of a laptop": (
        manifest(kafka={**KAFKA, "tls": {"caFile": "ca.pem"}}),
        "files are for a laptop; on a cluster, add secretRef: {name: SECRET}",
    ),
    "SASL without a Secret": (
        manifest(kafka={**KAFKA, "sasl": {"mechanism": "SCRAM-SHA-512"}}),
        "`secretRef` is missing; on a cluster, add secretRef: {name: SECRET}",
    ),
    "no token endpoint": (
        manifest(kafka={**KAFKA, "sasl": {"mechanism": "OAUTHBEARER", "secretRef": {"name": "s"}}}),
        "`tokenEndpoint` is missing; add tokenEndpoint: https://HOST/PATH, where tokens are asked for",
    ),
    "a token endpoint for nothing": (
        manifest(
            kafka={
                **KAFKA,
                "sasl": {"mechanism": "PLAIN", "secretRef": {"name": "s"}, "tokenEndpoint": "https://h/t"},
            }
        ),
        "`tokenEndpoint` and `scope` are for OAUTHBEARER; remove them, or set mechanism: OAUTHBEARER",
    ),
    "two windows": (
        manifest(
            **nodes(
                {
                    "name": "w",
                    "from": "lines",
                    "groupBy": ["value"],
                    "aggregate": {"n": "count(*)"},
                    "window": {"tumbling": "5s", "hopping": "10s", "every": "5s"},
                }
            )
        ),
        "node 'w': `window`: has `tumbling` and `hopping`; keep one of them",
    ),
    "stream from": (
        manifest(topology=[{**LINES, "from": "out"}, OUT]),
        "node 'lines': `from` is not for a stream, which reads topics; remove `from`",
    ),
    "merge from": (
        manifest(
            **nodes({"name": "m", "merge": ["lines", "l2"], "from": "lines"}, {"name": "l2", "stream": {"topic": "u"}})
        ),
        "node 'm': `from` is not for merge, which names what it reads; remove `from`",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_same_words(api: ApiServer, namespace: str, what: str) -> None:
    body, words = WRONG[what]
    said = refusal(api, body, namespace)
    assert words in said, said
    known = [without_values(line) for line in complaints(body)]
    assert any(without_values(words) in line for line in known), known


def test_two_nodes_of_one_name(api: ApiServer, namespace: str) -> None:
    body = manifest(**nodes({"name": "lines", "filter": "true", "from": "lines"}))
    assert "two nodes are named the same; rename one of them" in refusal(api, body, namespace)
    assert any("two nodes are named 'lines'; rename one of them" in line for line in complaints(body))


def test_what_may_not_change(api: ApiServer, namespace: str) -> None:
    assert "created" in refusal(api, manifest(maxParallelism=4), namespace)
    said = refusal(api, manifest(maxParallelism=8), namespace)
    assert "maxParallelism cannot change: it is fixed for the store's life; set it back" in said
    said = refusal(api, manifest(maxParallelism=4, applicationId="other"), namespace)
    assert "applicationId cannot change" in said
    assert "set it back to 'app', or make another StreamApp" in said
    assert "configured" in refusal(api, manifest(maxParallelism=4, applicationId="app"), namespace)


def test_unknown_fields_and_wrong_types_are_refused(api: ApiServer, namespace: str) -> None:
    assert 'unknown field "spec.maxParalelism"' in refusal(api, manifest(maxParalelism=4), namespace)
    assert "spec.topology[0].stream.topic" in refusal(
        api, manifest(topology=[{"name": "lines", "stream": {"topic": True}}, OUT]), namespace
    )


def test_every_example_of_the_manual_is_taken(api: ApiServer, namespace: str, root: Any) -> None:
    for file in sorted((root / "examples").glob("*.yaml")):
        body = yaml.safe_load(file.read_text())
        body["spec"]["kafka"] = {"bootstrapServers": "kafka:9092"}
        assert "created" in refusal(api, body, namespace), file.name


def test_explain_teaches(api: ApiServer) -> None:
    assert "Executors wanted" in api.kubectl("explain", "sapp.spec.replicas")
    assert "One record for each element of an array" in api.kubectl("explain", "sapp.spec.topology.flatMap")
    assert "How often an epoch is cut" in api.kubectl("explain", "streamapp.spec.epochInterval")


def test_scale_is_a_subresource(api: ApiServer, namespace: str) -> None:
    refusal(api, manifest(), namespace)
    api.kubectl("scale", "sapp/app", "--replicas=3", f"--namespace={namespace}")
    found = api.kubectl("get", "sapp/app", f"--namespace={namespace}", "--output=jsonpath={.spec.replicas}")
    assert found == "3"
    assert "app" in api.kubectl("get", "streaming", f"--namespace={namespace}")
