# SPDX-License-Identifier: Apache-2.0
"""A look at everything that a decision about an app rests on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from streamapp_operator.driver.client import Drivers
from streamapp_operator.driver.pods import MAKERS, has_ended, newest
from streamapp_operator.manifest.adoption import predecessor_of
from streamapp_operator.manifest.kafka_login import named_secrets
from streamapp_operator.manifest.modules import CODE_KIND, named_config_map
from streamapp_operator.names import base_name, secret_name
from streamapp_operator.observe.lag import Lags
from streamapp_operator.observe.observation import LISTED, Observation
from streamapp_operator.observe.remains import given_plan, is_deleted
from streamapp_operator.render.config import credentials_of
from streamapp_operator.render.driver import DRIVER
from streamapp_operator.render.executors import EXECUTOR
from streamapp_operator.render.meta import Object, component_of, controller_of, is_owned_by, selector_text, was_made_by
from streamapp_operator.versions.rollout import acted_upon


class Objects(Protocol):
    """Where objects are looked up: the API server itself, or what is kept of it."""

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object; None when there is none."""

    def lists(self, kinds: Collection[str], namespace: str, selector: str) -> Mapping[str, Sequence[Object]]:
        """The objects of these kinds with these labels, by kind."""


def observe(
    objects: Objects, lags: Lags, live: Drivers, namespace: str, name: str, earlier: Observation | None = None
) -> Observation | None:
    """Observes an app; None when there is no such resource.

    Args:
        objects: where they are looked up.
        lags: tells where the app is in its input.
        live: asks its driver.
        namespace: of the resource.
        name: of the resource.
        earlier: a look of a moment ago: Kafka is not asked again so soon, nor a driver whose pod is as it was then.

    Raises:
        KubeError: when the API server does not answer. Nothing may be decided on half of the facts.
    """
    body = objects.get("StreamApp", namespace, name)
    if body is None:
        return None
    base, uid = base_name(name), body["metadata"]["uid"]
    listed = objects.lists((*LISTED, "Pod"), namespace, selector_text(base))
    found = [item for kind in LISTED for item in listed[kind]]
    own = ("Secret", secret_name(base))
    secret = objects.get(own[0], namespace, own[1])
    if secret is not None:
        found.append(secret)
    children = {(item["kind"], item["metadata"]["name"]): item for item in found if is_owned_by(item, uid)}
    pods = listed["Pod"]
    drivers = tuple(pod for pod in pods if component_of(pod) == DRIVER and was_made_by(pod, *MAKERS))
    owners = [uid, *(item["metadata"]["uid"] for item in children.values() if item["kind"] == "CronJob")]
    jobs = [item for item in found if item["kind"] == "Job" and any(is_owned_by(item, owner) for owner in owners)]
    known = credentials_of(children.get(own, {}))
    seen = Observation(
        body=body,
        children=children,
        driver=newest([pod for pod in drivers if _is_run_by(pod, (*children.values(), *jobs))]) or newest(drivers),
        drivers=drivers,
        jobs=tuple(jobs),
        executors=tuple(pod for pod in pods if component_of(pod) == EXECUTOR and was_made_by(pod, "Pod")),
        silence="there is no driver",
        secrets={name: objects.get("Secret", namespace, name) for name in _secrets(body, children)},
        code=objects.get(CODE_KIND, namespace, code) if (code := named_config_map(body)) is not None else None,
        predecessor=objects.get("StreamApp", *place)
        if (place := predecessor_of(body["metadata"])) is not None
        else None,
        token=known.token if known else "",
    )
    return _asked(seen, lags, live, earlier)


def _secrets(body: Object, children: Mapping[tuple[str, str], Object]) -> set[str]:
    """The Secrets that the manifest names; for an app that is deleted also those of the plan that its drivers got
    last."""
    names = named_secrets(body)
    plan = given_plan(body, children) if is_deleted(body) else None
    if plan is not None:
        names |= {name for name in (plan.kafka.tls_secret, plan.kafka.sasl_secret) if name is not None}
    return names


def _asked(seen: Observation, lags: Lags, live: Drivers, earlier: Observation | None) -> Observation:
    """The observation with the answers of driver and Kafka."""
    if earlier is not None and (_version(earlier.driver), earlier.token) == (_version(seen.driver), seen.token):
        status, silence = earlier.status, earlier.silence
    elif seen.driver is not None and not has_ended(seen.driver):
        if _is_run_by(seen.driver, (*seen.children.values(), *seen.jobs)):
            status, silence = live.ask(seen.driver, seen.token)
        else:  # it would get the token
            status, silence = None, "its pod is not of this app's StatefulSet or Job"
    else:
        status, silence = None, seen.silence
    if is_deleted(seen.body):
        position, unknown = None, ""
    elif earlier is not None:
        position, unknown = earlier.position, earlier.unknown
    else:
        position, unknown = lags.of(acted_upon(seen.body, seen.children), seen.secrets)
    return replace(seen, status=status, silence=silence, position=position, unknown=unknown)


def _is_run_by(pod: Object, objects: Iterable[Object]) -> bool:
    """Whether one of these objects that make drivers' pods has made the pod, and is still there. A user who makes a pod
    writes its references too. So a pod of a StatefulSet has to have the name that the StatefulSet alone gives, and that
    one pod has at a time."""
    makers = {item["metadata"]["uid"]: item for item in objects if item["kind"] in MAKERS}
    maker = makers.get(controller_of(pod).get("uid"))
    if maker is None:
        return False
    own = f"{maker['metadata']['name']}-0"
    return str(maker["kind"]) != "StatefulSet" or str(pod["metadata"]["name"]) == own


def _version(pod: Object | None) -> str:
    return str(pod["metadata"]["resourceVersion"]) if pod is not None else ""
