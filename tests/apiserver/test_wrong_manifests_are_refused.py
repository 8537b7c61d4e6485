# SPDX-License-Identifier: Apache-2.0
"""`kubectl apply` of a wrong manifest is refused with the words of `streamapp validate`."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
import yaml

from lib.apiserver import ApiServer
from lib.operator import WORD_COUNT
from streamapp_operator.decide.problems import mistakes_of
from streamapp_operator.settings import Settings

pytestmark = pytest.mark.cluster

LINES = {"name": "lines", "stream": {"topic": "t"}}
KAFKA = {"bootstrapServers": "kafka:9092"}
COUNTS = {"name": "c", "from": "lines", "groupBy": ["value"], "aggregate": {"n": "count(*)"}}
FOLDED = {"name": "f", "from": "lines", "groupBy": ["key"], "reduce": {"value": "acc.value || value"}}
BOTH = {
    "name": "both",
    "groupBy": ["key"],
    "cogroup": [
        {"from": "lines", "aggregate": {"lines": "count(*)"}},
        {"from": "others", "aggregate": {"others": "count(*)"}},
    ],
}
OTHERS = {"name": "others", "stream": {"topic": "u"}}
ONCE = {"name": "once", "from": "lines", "deduplicate": {"by": ["value"], "within": "1 hour"}, "store": "seen"}
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
    return api.kubectl("apply", f"--namespace={namespace}", "-f", "-", text=json.dumps(body), check=False)


def complaints(body: dict[str, Any]) -> list[str]:
    """The complaints of `streamapp validate` and of the operator."""
    return list(mistakes_of(body, None, Settings()))


def without_values(words: str) -> str:
    """The message without values: CEL cannot name a number, nor a name out of a list (see crd/rules.py)."""
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
        "node 'none': has no operation; add one of: stream, table, globalTable, filter, select, with, flatMap, "
        "keyBy, merge, branch, groupBy, deduplicate, join, toTable, toStream, suppress, python, to",
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
    "emit of nothing": (
        manifest(**nodes({"name": "w", "from": "lines", "filter": "true", "emit": "updates"})),
        "node 'w': `emit` is only for `groupBy`; remove `emit`",
    ),
    "hopping without every": (
        manifest(
            **nodes(
                {
                    "name": "w",
                    "from": "lines",
                    "groupBy": ["value"],
                    "aggregate": {"n": "count(*)"},
                    "window": {"hopping": "5s"},
                }
            )
        ),
        "node 'w': `window.every`: `every` is missing; say how often a window starts, e.g. every: 1 minute",
    ),
    "store of nothing": (
        manifest(**nodes({"name": "w", "from": "lines", "filter": "true", "store": "s"})),
        "`store` is only for `groupBy`, `deduplicate`, `join`, `table`, `globalTable`, `toTable` or `suppress`",
    ),
    "ttl of a window": (
        manifest(**nodes({**COUNTS, "window": {"tumbling": "5s"}, "ttl": "1h"})),
        "node 'c': `ttl` is there with a `window`; remove it: a window ends by itself, and `retention` says",
    ),
    "aggregate and reduce": (
        manifest(**nodes({**COUNTS, "reduce": {"value": "value"}})),
        "node 'c': `aggregate` and `reduce` are both there; keep one of them, or make a node of each",
    ),
    "cogroup with from": (
        manifest(**nodes(OTHERS, {**BOTH, "from": "lines"})),
        "node 'both': `from` is not for cogroup, whose items name what they read; remove `from`",
    ),
    "cogroup and aggregate": (
        manifest(**nodes(OTHERS, {**BOTH, "aggregate": {"n": "count(*)"}})),
        "node 'both': `cogroup` says itself what each stream comes to; write it into the items of `cogroup`",
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
    "an id that is no prefix": (
        manifest(applicationId="a b"),
        "'a b' cannot be the prefix of topics' names; use letters, digits, `.`, `_` and `-`",
    ),
    "standby replicas": (
        manifest(standbyReplicas=1),
        "warm copies of stores are not available yet in this version; leave `standbyReplicas` out",
    ),
    "a short transaction timeout": (
        manifest(transactionTimeout="50ms"),
        "'50ms' is not between 1s and 1 day; write e.g. 60s, and not less than an epoch may take",
    ),
    "a long transaction timeout": (manifest(transactionTimeout="25 Hours"), "'25 Hours' is not between 1s and 1 day"),
    "start from nowhere": (
        manifest(startFrom="beginning"),
        "'beginning' is neither earliest nor latest nor a timestamp; write e.g. '2024-01-31T00:00:00Z'",
    ),
    "state loss": (
        manifest(upgrade={"allowStateLoss": ["word-counts"]}),
        "a store cannot lose its state in place yet in this version; leave `allowStateLoss` out; "
        "another `store` on the node begins empty",
    ),
    "code nowhere": (
        manifest(code={}),
        "`code` says no place; add files: {scoring.py: …}, path or configMapRef",
    ),
    "code twice": (
        manifest(code={"files": {"a.py": "x = 1"}, "path": "a.py"}),
        "there are `files` and `path`; keep one of them",
    ),
    "code of a laptop": (
        manifest(code={"path": "a.py"}),
        '`path` is for a laptop (in "a.py"); on a cluster, add configMapRef: {name: CONFIGMAP}, '
        "or write the modules into files",
    ),
    "code in no object": (
        manifest(code={"configMapRef": {"name": "My_Code"}}),
        "'My_Code' cannot be the name of an object in a cluster; use lower-case letters, digits, `.` and `-`",
    ),
    "a Secret of another namespace": (
        manifest(kafka={**KAFKA, "sasl": {"mechanism": "PLAIN", "secretRef": {"name": "../../billing/secrets/kafka"}}}),
        "'../../billing/secrets/kafka' cannot be the name of an object in a cluster; "
        "use lower-case letters, digits, `.` and `-`",
    ),
    "certificates of another namespace": (
        manifest(kafka={**KAFKA, "tls": {"secretRef": {"name": "a..b"}}}),
        "'a..b' cannot be the name of an object in a cluster; use lower-case letters, digits, `.` and `-`",
    ),
    "no port": (
        manifest(kafka={"bootstrapServers": "kafka"}),
        "'kafka' is not HOST:PORT; write e.g. kafka:9092",
    ),
    "no page": (
        manifest(
            kafka={
                **KAFKA,
                "sasl": {"mechanism": "OAUTHBEARER", "secretRef": {"name": "s"}, "tokenEndpoint": "login"},
            }
        ),
        "'login' is not the address of a page; write https://HOST/PATH, or https://HOST:PORT/PATH",
    ),
    "a reference as a scope": (
        manifest(
            kafka={
                **KAFKA,
                "sasl": {
                    "mechanism": "OAUTHBEARER",
                    "secretRef": {"name": "s"},
                    "tokenEndpoint": "https://h/t",
                    "scope": "${directory:/var/run/secrets/kubernetes.io/serviceaccount:token}",
                },
            }
        ),
        "is no scope; write words of letters, digits and signs, without quotes, backslashes and braces",
    ),
    "a command as a broker": (
        manifest(kafka={"bootstrapServers": "$(id):9092"}),
        "'$(id):9092' is not HOST:PORT; write e.g. kafka:9092",
    ),
    "a name of the engine's": (
        manifest(**nodes({"name": "__a", "from": "lines", "filter": "true"})),
        "'__a' starts with two underscores, as the engine's own names do; rename it",
    ),
    "a store's name": (
        manifest(**nodes({**COUNTS, "store": "a b"})),
        "'a b' cannot be part of a topic's name; use letters, digits, `.`, `_` and `-`",
    ),
    "a store's name of the engine's": (
        manifest(**nodes({**COUNTS, "store": "__s"})),
        "'__s' starts with two underscores, as the engine's own names do; rename it",
    ),
    "a branch's name": (
        manifest(**nodes({"name": "b", "from": "lines", "branch": [{"name": "a/b", "when": "true"}]})),
        "'a/b' cannot be part of a topic's name; use letters, digits, `.`, `_` and `-`",
    ),
    "a topic's name": (
        manifest(topology=[{"name": "lines", "stream": {"topic": "a b"}}, OUT]),
        "topic 'a b' is no topic name: letters, digits, `.`, `_` and `-` only",
    ),
    "a name of no topic": (
        manifest(topology=[LINES, {"name": "out", "to": {"topic": ".."}}]),
        "topic '..' is no topic name: letters, digits, `.`, `_` and `-` only",
    ),
    "an empty topic": (manifest(topology=[LINES, {"name": "out", "to": {"topic": ""}}]), "topic '' is empty"),
    "itself": (
        manifest(**nodes({"name": "a", "from": "a", "filter": "true"})),
        "node 'a': `from`: reads itself: a → a; make one of them read another node",
    ),
    "two branches for the rest": (
        manifest(**nodes({"name": "b", "from": "lines", "branch": [{"name": "x"}, {"name": "z"}]})),
        "`when` is missing, and only the last branch may take the rest; add when: …",
    ),
    "a branch behind the rest": (
        manifest(**nodes({"name": "b", "from": "lines", "branch": [{"name": "x"}, {"name": "z", "when": "true"}]})),
        "`when` is missing, and only the last branch may take the rest; add when: …",
    ),
    "no kind of window": (
        manifest(**nodes({**COUNTS, "window": {}})),
        "says no kind of window; write e.g. window: {tumbling: 5 minutes}",
    ),
    "a window that hops nowhere": (
        manifest(**nodes({**COUNTS, "window": {"hopping": "5s"}})),
        "`every` is missing; say how often a window starts, e.g. every: 1 minute",
    ),
    "a window that does not hop": (
        manifest(**nodes({**COUNTS, "window": {"tumbling": "5s", "every": "5s"}})),
        "`every` is for hopping windows; remove it, or write hopping",
    ),
    "a row of its time of a stream": (
        manifest(**nodes({"name": "j", "from": "lines", "join": {"with": "lines", "within": "5s", "asOf": True}})),
        "`asOf` is for a table: two streams meet within a time; remove it, or join a table",
    ),
    "late records of a join with a table": (
        manifest(**nodes({"name": "j", "from": "lines", "join": {"with": "lines", "late": {"topic": "u"}}})),
        "`late` is for two streams, which meet within a time; remove it, or add e.g. within: 5 minutes",
    ),
    "a history of rows that expire": (
        manifest(**nodes({"name": "v", "table": {"topic": "v", "history": "1h", "ttl": "1h"}})),
        "a row that expires would have no end in its history; remove `ttl`",
    ),
    "no function": (
        manifest(**nodes({"name": "p", "from": "lines", "python": {"function": "score", "schema": "a STRING"}})),
        "'score' names no function; write MODULE:FUNCTION, e.g. scoring:score",
    ),
}

VERSIONS = {"name": "versions", "table": {"topic": "v", "history": "1h"}}
OF_ITS_TIME = {"with": "versions", "asOf": True, "grace": "5s", "select": {"a": "left.value"}}
DATED = {"name": "dated", "from": "lines", "join": OF_ITS_TIME, "store": "held"}

RIGHT = {
    "rows of their time": manifest(**nodes(VERSIONS, DATED)),
    "a fold, and the first of several records": manifest(**nodes(FOLDED, ONCE)),
    "groups and rows that expire": manifest(
        **nodes(
            {**COUNTS, "ttl": "1h"},
            {"name": "seldom", "suppress": {"untilTimeLimit": "5m"}, "store": "held"},
            {"name": "t", "from": "lines", "toTable": {"ttl": "1h"}},
        )
    ),
    "a fold in windows": manifest(**nodes({**FOLDED, "window": {"tumbling": "5s"}, "emit": "final"})),
    "two streams in one table": manifest(**nodes(OTHERS, {**BOTH, "window": {"tumbling": "5s"}, "emit": "final"})),
    "an idle timeout": manifest(idleTimeout="1500 ms"),
    "the shortest transaction": manifest(transactionTimeout="01 Second"),
    "the longest transaction": manifest(transactionTimeout="24h"),
    "a day": manifest(startFrom="2024-01-31"),
    "several brokers": manifest(kafka={"bootstrapServers": " a.example:9092, [::1]:9093 "}),
    "code in a ConfigMap, and on a laptop": manifest(code={"configMapRef": {"name": "a.code-1"}, "path": "a.py"}),
    "an empty list": manifest(upgrade={"allowStateLoss": []}),
    "the rest": manifest(
        **nodes({"name": "b", "from": "lines", "branch": [{"name": "x", "when": "true"}, {"name": "z"}]})
    ),
    "a module in a package": manifest(
        code={"configMapRef": {"name": "c"}},
        **nodes({"name": "p", "from": "lines", "python": {"function": "größe.m:_f1", "schema": "a STRING"}}),
    ),
}
"""Valid manifests that a rule might take for wrong."""


@pytest.mark.parametrize("what", RIGHT)
def test_what_is_right_is_taken(api: ApiServer, namespace: str, what: str) -> None:
    said = refusal(api, RIGHT[what], namespace)
    assert "created" in said, said


@pytest.mark.parametrize("what", WRONG)
def test_the_same_words(api: ApiServer, namespace: str, what: str) -> None:
    body, words = WRONG[what]
    said = refusal(api, body, namespace)
    assert words in said, said
    known = [without_values(line) for line in complaints(body)]
    assert any(without_values(words) in line for line in known), known


def one(**node: Any) -> dict[str, Any]:
    """A manifest with one node between source and sink."""
    return manifest(**nodes({"name": "x", "from": "lines", **node}))


BY_SCHEMA = {
    "an unknown field": (manifest(maxParalelism=4), 'unknown field "spec.maxParalelism"'),
    "an unknown field of a node": (one(fliter="true"), 'unknown field "spec.topology[1].fliter"'),
    "an operation of a later version": (
        one(sql="select 1"),
        'unknown field "spec.topology[1].sql"',
    ),
    "an unknown word": (manifest(guarantee="twice"), 'spec.guarantee: Unsupported value: "twice"'),
    "a word of a later version": (
        manifest(upgrade={"strategy": "Parallel"}),
        'spec.upgrade.strategy: Unsupported value: "Parallel": supported values: "InPlace"',
    ),
    "a join that there is not": (
        one(join={"with": "out", "type": "right", "within": "5s"}),
        'spec.topology[1].join.type: Unsupported value: "right": supported values: "inner", "left", "outer"',
    ),
    "a text where a number belongs": (manifest(replicas="2"), "spec.replicas in body must be of type integer"),
    "a number where a text belongs": (one(filter=5), "spec.topology[1].filter in body must be of type string"),
    "a duration without a unit": (manifest(epochInterval=100), "spec.epochInterval in body must be of type string"),
    "too few": (
        manifest(maxParallelism=0),
        "spec.maxParallelism in body should be greater than or equal to 1",
    ),
    "too many": (manifest(replicas=10**7), "spec.replicas in body should be less than or equal to 1000000"),
    "an empty list": (manifest(topology=[]), "spec.topology in body should have at least 1 items"),
    "one stream to merge": (one(merge=["lines"]), "spec.topology[1].merge in body should have at least 2 items"),
    "no code": (manifest(code={"files": {}}), "spec.code.files in body should have at least 1 properties"),
    "a name that is missing": (manifest(topology=[{"stream": {"topic": "t"}}, OUT]), "spec.topology[0].name: Required"),
    "a sink of no topic": (
        manifest(topology=[LINES, {"name": "out", "to": {}}]),
        "spec.topology[1].to.topic: Required",
    ),
    "the app's name": (manifest("Word_Count"), 'metadata.name: Invalid value: "Word_Count"'),
}
"""Manifests that the API server refuses by the schema alone, and its own words: they name field and value."""

SQL = "CEL knows no SQL"
TYPES = "CEL sees no field that may be a text or an object"
NODES = "a node is looked up by its name, which costs more than a rule may, and a rule's message cannot name it"
BY_OPERATOR = {
    "an expression": (one(filter="value >"), SQL),
    "an unknown column": (one(filter="amount > 1"), SQL),
    "an unknown function": (one(filter="lenght(value) > 1"), SQL),
    "no aggregate function": (one(groupBy=["value"], aggregate={"n": "value"}), SQL),
    "a column that is there twice": (one(select={"a": "value", "A": "value"}), SQL),
    "columns of a schema": (one(python={"function": "m:f", "schema": "user STRNG"}), "CEL knows no DDL"),
    "a format": (manifest(topology=[{"name": "lines", "stream": {"topic": "t", "value": "avro"}}, OUT]), TYPES),
    "bad records": (manifest(onBadRecord="Ignore"), TYPES),
    "a group of two columns": (one(groupBy=[{"a": "value", "b": "value"}], aggregate={"n": "count(*)"}), TYPES),
    "aggregates of no group": (one(aggregate={"n": "count(*)"}), TYPES),
    "an unknown node": (manifest(topology=[LINES, {**OUT, "from": "line"}]), NODES),
    "a circle": (
        manifest(**nodes({"name": "a", "from": "b", "filter": "true"}, {"name": "b", "filter": "true"})),
        NODES,
    ),
    "a sink that is read": (manifest(topology=[LINES, OUT, {"name": "x", "from": "out", "filter": "true"}]), NODES),
    "a topic that feeds itself": (manifest(topology=[LINES, {"name": "out", "to": {"topic": "t"}}]), NODES),
    "two stores of one name": (
        manifest(**nodes({**COUNTS, "store": "s"}, {**COUNTS, "name": "d", "store": "s"})),
        NODES,
    ),
    "streams of different columns": (
        manifest(
            **nodes({"name": "w", "from": "lines", "select": {"a": "value"}}, {"name": "m", "merge": ["lines", "w"]})
        ),
        NODES,
    ),
    "one of several topics": (
        manifest(topology=[{"name": "lines", "stream": {"topics": ["a b", "c"]}}, OUT]),
        "a look at each of the topics of each node costs more than a rule may",
    ),
    "a pattern": (
        manifest(topology=[{"name": "lines", "stream": {"pattern": "("}}, OUT]),
        "CEL cannot say what is wrong with it",
    ),
    "a window that hops too far": (
        one(groupBy=["value"], aggregate={"n": "count(*)"}, window={"hopping": "5s", "every": "1 minute"}),
        "units make the comparison of two durations cost more than a rule may, at each node",
    ),
    "a cron line": (manifest(run="untilCaughtUp", schedule="0 25 * * *"), "CEL cannot say which field is wrong"),
    "days of two kinds": (manifest(run="untilCaughtUp", schedule="0 8 */2 * 1"), "CEL cannot read cron lines"),
    "a timestamp": (manifest(startFrom="2024-02-31"), "CEL knows the form of a timestamp, not the calendar"),
    "a port": (manifest(kafka={"bootstrapServers": "kafka:99999"}), "CEL knows the form of an address, not its number"),
    "a duration that is too long": (
        manifest(epochInterval="9000000 weeks"),
        "CEL bounds the digits, not what they make with the unit",
    ),
    "a module's name": (manifest(code={"files": {"json.py": "x = 1"}}), "CEL does not know Python's own modules"),
    "a module that cannot be read": (manifest(code={"files": {"m.py": "def"}}), "CEL knows no Python"),
    "memory": (
        manifest(driver={"resources": {"limits": {"memory": "1Mi"}}}),
        "a part of Kubernetes' own language, and the operator's settings decide, too",
    ),
    "code that is not there": (manifest(code={"configMapRef": {"name": "gone"}}), "it is in another object"),
}
"""Manifests that only TopologyValid reports as wrong, and the reason."""


@pytest.mark.parametrize("what", BY_SCHEMA)
def test_the_api_servers_own_words_name_field_and_value(api: ApiServer, namespace: str, what: str) -> None:
    body, words = BY_SCHEMA[what]
    said = refusal(api, body, namespace)
    assert words in said, said


@pytest.mark.parametrize("what", BY_OPERATOR)
def test_what_only_the_operator_can_tell(api: ApiServer, namespace: str, what: str) -> None:
    body, why = BY_OPERATOR[what]
    assert why
    assert "created" in refusal(api, body, namespace)
    assert complaints(body) != []


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
