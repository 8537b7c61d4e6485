# SPDX-License-Identifier: Apache-2.0
"""Rules in CEL by which the API server refuses manifests by itself, with the words that `streamapp validate` uses.

Fields that may be a text or an object (a format, an item of `groupBy`) are invisible to CEL. So `aggregate`,
`reduce` or `cogroup` stands for the operation `groupBy` here, and everything that needs more than one look at a
field is left to the operator. The API server also limits the cost of a rule and its message, so that messages cannot
name numbers, or names out of lists.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamapp.addresses import HOST
from streamapp.manifest.model import LONGEST_OBJECT_NAME, OBJECT_NAME, PAGE, SCOPE
from streamapp_operator.crd.duration_rules import duration_rules, of_single_durations
from streamapp_operator.crd.node_rules import node_rules
from streamapp_operator.crd.rule import ITEMS, LEGAL, LEGAL_WORDS, QUOTED, Rule, Schema
from streamapp_operator.manifest.kafka_login import LAPTOP_FILES, NO_SECRET

_ADDRESS = rf"{HOST}:[0-9]{{1,5}}"
_OBJECT_NAME = f"^{OBJECT_NAME}$"


def add_rules(schema: Schema) -> None:
    """Puts every rule at its place in a structural schema of the whole resource."""
    for rule in (*_rules(), *duration_rules(schema), *of_single_durations()):
        place = schema
        for step in rule.at:
            place = place["items"] if step == ITEMS else place.get("items", place)["properties"][step]
        place.setdefault("x-kubernetes-validations", []).append(rule.to_object())


def _rules() -> Iterator[Rule]:
    yield from _of_the_app()
    yield from _of_autoscaling(("spec", "autoscaling"))
    topology = ("spec", "topology")
    yield Rule(
        topology,
        "self.all(n, self.exists_one(m, m.name == n.name))",
        "two nodes are named the same; rename one of them",
    )
    yield from node_rules((*topology, ITEMS))


def _of_the_app() -> Iterator[Rule]:
    def of(version: str) -> str:
        return f"(has({version}.spec.applicationId) ? {version}.spec.applicationId : {version}.metadata.name)"

    yield Rule(
        (),
        f"{of('self')} == {of('oldSelf')}",
        "'applicationId cannot change: topics, positions and state bear its name; set it back to \\''"
        f" + {of('oldSelf')} + '\\', or make another StreamApp'",
        computed=True,
    )
    yield Rule(
        ("spec", "maxParallelism"),
        "self == oldSelf",
        "maxParallelism cannot change: it is fixed for the store's life; set it back, or make another StreamApp",
    )
    yield Rule(
        ("spec",),
        "has(self.kafka)",
        "`kafka` is missing; say where Kafka is, e.g. kafka: {bootstrapServers: kafka:9092}",
    )
    yield from _of_kafka(("spec", "kafka"))
    yield Rule(
        ("spec",),
        "!(has(self.replicas) && has(self.autoscaling))",
        "`replicas` and `autoscaling` are both there; remove one: autoscaling sets the replicas",
    )
    yield Rule(
        ("spec",),
        "!has(self.schedule) || self.run == 'untilCaughtUp'",
        "`schedule` is for apps that stop; add run: untilCaughtUp",
    )
    yield Rule(
        ("spec",),
        "!self.closeWindows || self.run == 'untilCaughtUp'",
        "`closeWindows` is for apps that stop; add run: untilCaughtUp",
    )

    yield Rule(
        ("spec", "applicationId"),
        LEGAL,
        f"{QUOTED} cannot be the prefix of topics\\' names; use {LEGAL_WORDS}'",
        computed=True,
    )
    yield Rule(
        ("spec", "standbyReplicas"),
        "self == 0",
        "warm copies of stores are not available yet in this version; leave `standbyReplicas` out",
    )
    yield Rule(
        ("spec", "startFrom"),
        "self == 'earliest' || self == 'latest' || self.matches('^[0-9]{4}-?[0-9W]')",
        f"{QUOTED} is neither earliest nor latest nor a timestamp; write e.g. \\'2024-01-31T00:00:00Z\\''",
        computed=True,
    )
    yield Rule(
        ("spec", "upgrade", "allowStateLoss"),
        "self.size() == 0",
        "a store cannot lose its state in place yet in this version; "
        "leave `allowStateLoss` out; another `store` on the node begins empty",
    )
    yield from _of_code(("spec", "code"))


def _of_code(code: tuple[str, ...]) -> Iterator[Rule]:
    yield Rule(
        code,
        "has(self.files) || has(self.path) || has(self.configMapRef)",
        "`code` says no place; add files: {scoring.py: …}, path or configMapRef",
    )
    yield Rule(
        code,
        "!has(self.files) || !(has(self.path) || has(self.configMapRef))",
        "'there are `files` and `' + (has(self.path) ? 'path' : 'configMapRef') + '`; keep one of them'",
        computed=True,
    )
    yield Rule(
        code,
        "!has(self.path) || has(self.files) || has(self.configMapRef)",
        "'`path` is for a laptop (in \"' + self.path + '\"); "
        "on a cluster, add configMapRef: {name: CONFIGMAP}, or write the modules into files'",
        computed=True,
    )
    yield _object_name((*code, "configMapRef", "name"))


def _object_name(place: tuple[str, ...]) -> Rule:
    """The rule for a name by which the operator asks for an object of the app's author."""
    return Rule(
        place,
        f"self.matches(r'{_OBJECT_NAME}') && size(self) <= {LONGEST_OBJECT_NAME}",
        f"{QUOTED} cannot be the name of an object in a cluster; use lower-case letters, digits, `.` and `-`'",
        computed=True,
    )


def _of_kafka(kafka: tuple[str, ...]) -> Iterator[Rule]:
    yield Rule(
        (*kafka, "bootstrapServers"),
        rf"self.matches(r'^ *{_ADDRESS} *(, *{_ADDRESS} *)*$')",
        f"{QUOTED} is not HOST:PORT; write e.g. kafka:9092'",
        computed=True,
    )
    yield Rule(
        (*kafka, "sasl", "tokenEndpoint"),
        f'self.matches(r"^{PAGE}$")',
        f"{QUOTED} is not the address of a page; write https://HOST/PATH, or https://HOST:PORT/PATH'",
        computed=True,
    )
    yield Rule(
        (*kafka, "sasl", "scope"),
        f"self.matches(r'^{SCOPE}$')",
        "is no scope; write words of letters, digits and signs, without quotes, backslashes and braces",
    )
    tls, sasl = (*kafka, "tls"), (*kafka, "sasl")
    yield _object_name((*tls, "secretRef", "name"))
    yield _object_name((*sasl, "secretRef", "name"))
    files = " || ".join(f"has(self.{name})" for name in ("caFile", "certificateFile", "keyFile"))
    yield Rule(tls, f"has(self.secretRef) || !({files})", LAPTOP_FILES)
    yield Rule(sasl, "has(self.secretRef)", NO_SECRET)
    yield Rule(
        sasl,
        "self.mechanism != 'OAUTHBEARER' || has(self.tokenEndpoint)",
        "`tokenEndpoint` is missing; add tokenEndpoint: https://HOST/PATH, where tokens are asked for",
    )
    yield Rule(
        sasl,
        "self.mechanism == 'OAUTHBEARER' || !(has(self.tokenEndpoint) || has(self.scope))",
        "`tokenEndpoint` and `scope` are for OAUTHBEARER; remove them, or set mechanism: OAUTHBEARER",
    )


def _of_autoscaling(at: tuple[str, ...]) -> Iterator[Rule]:
    message = "minReplicas is more than maxReplicas; make minReplicas the smaller one"
    low = "(has(s.minReplicas) ? s.minReplicas : self.minReplicas)"
    high = "(has(s.maxReplicas) ? s.maxReplicas : self.maxReplicas)"
    yield Rule(at, "self.minReplicas <= self.maxReplicas", message)
    yield Rule(at, f"!has(self.schedule) || self.schedule.all(s, {low} <= {high})", message)
