# SPDX-License-Identifier: Apache-2.0
"""One StreamApp as the operator sees it: the resource, read and compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from streamapp.compile import compile_manifest
from streamapp.compile.assemble import kafka_settings
from streamapp.compile.unused import leads_nowhere
from streamapp.durations import parse_duration
from streamapp.errors import ManifestError, Problem
from streamapp.kafka.login import is_secured
from streamapp.manifest import Manifest, parse_object
from streamapp.manifest.model import KafkaSpec, UpgradeSpec
from streamapp.owner import resource_owner
from streamapp.plan import Plan
from streamapp_operator.manifest.adoption import adopted_owner, misnamed_owner
from streamapp_operator.manifest.kafka_login import Login, assumed_login, problems_of
from streamapp_operator.manifest.versions import live_spec, version_name, version_spec, without_image
from streamapp_operator.names import base_name

RESTART_ANNOTATION = "streamapp.dev/restart-at"
"""Annotation on the resource: a new value, by custom the time, starts the app anew."""
_NO_KAFKA = Problem(
    None,
    "kafka",
    None,
    "`kafka` is missing",
    "say where Kafka is, e.g. kafka: {bootstrapServers: kafka:9092}, as a cluster has no embedded one",
)


@dataclass(frozen=True)
class App:
    """The app that a resource asks for in its `generation`."""

    namespace: str
    name: str
    uid: str
    generation: int
    manifest: Manifest
    plan: Plan
    restart_at: str = ""
    """The restart that was last asked for."""
    adopts: str = ""
    """The owner whose state it is to go on with; empty for none."""
    image: str = ""
    """The image of driver and executors, if the manifest names none; empty: that of the operator's settings."""
    halted: bool = False
    """Whether it is to stay down until somebody does something about it."""
    login: Login | None = None
    """Its login to Kafka, where that asks for one; None: nobody has looked into its Secrets."""

    @cached_property
    def version_spec(self) -> dict[str, Any]:
        """The part of the spec whose change makes another version."""
        return version_spec(self.manifest, self.image)

    @cached_property
    def version_name(self) -> str:
        return version_name(self.base, self.version_spec)

    @cached_property
    def live_spec(self) -> dict[str, Any]:
        """The part of the spec that is taken up live."""
        return live_spec(self.manifest)

    @cached_property
    def dead_ends(self) -> tuple[str, ...]:
        """A sentence on each node whose records are dropped: it may be meant so, or a `to` was forgotten."""
        return tuple(str(problem) for problem in leads_nowhere(self.manifest))

    @property
    def attempt(self) -> str:
        """The version, the restart that was last asked for, and whose state it goes on with: failures are counted for
        each anew."""
        return "@".join(part for part in (self.version_name, self.restart_at, self.adopts) if part)

    @cached_property
    def own_attempt(self) -> str:
        """The attempt without the image of the operator's settings: another one shows that the author asks for a new
        driver."""
        own = version_name(self.base, without_image(self.version_spec))
        return "@".join(part for part in (own, self.restart_at, self.adopts) if part)

    @property
    def verdict_attempt(self) -> str:
        """The subject of a verdict besides the version: the restart that was last asked for, and the time that the
        version had. A verdict with another subject does not count."""
        default = parse_duration(UpgradeSpec().progress_deadline) / 1000
        time = f" within {self.progress_deadline:.0f} s" if self.progress_deadline != default else ""
        return self.restart_at + time

    @property
    def progress_deadline(self) -> float:
        """Seconds that a new version may take to prove itself while nothing moves."""
        upgrade = self.manifest.spec.upgrade or UpgradeSpec()
        return parse_duration(upgrade.progress_deadline) / 1000

    @property
    def kafka_login(self) -> Login | None:
        """The login to Kafka, or an assumed one; None where Kafka does not ask for one."""
        if not is_secured(self.plan.kafka):
            return None
        return self.login or assumed_login(self.plan.kafka)

    @property
    def stopped(self) -> bool:
        """Whether neither driver nor executors are wanted."""
        return self.manifest.spec.suspend or self.halted

    @property
    def base(self) -> str:
        """The beginning of the names of the app's objects."""
        return base_name(self.name)

    @property
    def owner(self) -> str:
        """The owner of the applicationId on Kafka."""
        return resource_owner(self.namespace, self.name, self.uid)


def read_app(body: Mapping[str, Any], image: str = "") -> App:
    """The app of a resource as the API server gives it. The same resource is read and compiled once.

    Args:
        body: the resource.
        image: that it runs with if it names none; empty: that of the operator's settings, whatever it is.

    Raises:
        ManifestError: with everything that is wrong with it.
    """
    found = _READ.of(_essence(body), body)
    return replace(found, image=image) if image else found


def _essence(body: Mapping[str, Any]) -> str:
    """All that an app is made of, as text."""
    metadata = body["metadata"]
    about = {key: metadata.get(key) for key in ("name", "namespace", "uid", "generation", "annotations")}
    others = {key: value for key, value in body.items() if key not in ("metadata", "status")}
    return repr([about, others])  # `repr` tells a text from all else


@dataclass
class _Read:
    """Apps that were read lately, by their essence. An App is never changed, so it may be shared."""

    _apps: dict[str, App] = field(default_factory=dict)
    _size: int = 0

    def of(self, essence: str, body: Mapping[str, Any]) -> App:
        found = self._apps.get(essence)
        if found is None:
            found = _read_app(body)
            if self._size + len(essence) > _LARGEST:
                self._apps, self._size = {}, 0
            self._apps[essence] = found
            self._size += len(essence)
        return found


_LARGEST = 2 * 1024 * 1024
"""Characters of all that is remembered; an app takes some thirty times as many bytes. A word count has a thousand."""
_READ = _Read()


def _read_app(body: Mapping[str, Any]) -> App:
    """
    Raises:
        ManifestError: with everything that is wrong with it.
    """
    try:
        manifest = parse_object({key: value for key, value in body.items() if key != "status"})
    except ManifestError as error:
        raise ManifestError([*error.problems, *_of_cluster(body)], error.unchecked) from None
    return app_of(body, manifest)


def _of_cluster(body: Mapping[str, Any]) -> list[Problem]:
    """The problems of a resource that matter only on a cluster."""
    return [*_of_kafka(body.get("spec")), *misnamed_owner(body["metadata"])]


def app_of(body: Mapping[str, Any], manifest: Manifest) -> App:
    """The app of a resource whose manifest has been read, without the operator's image.

    Raises:
        ManifestError: with all that a cluster needs of it and it has not.
    """
    if problems := _of_cluster(body):
        raise ManifestError(problems)
    metadata = body["metadata"]
    return App(
        namespace=metadata.get("namespace", "default"),
        name=manifest.name,
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation", 1),
        manifest=manifest,
        plan=compile_manifest(manifest),
        restart_at=str((metadata.get("annotations") or {}).get(RESTART_ANNOTATION, "")),
        adopts=adopted_owner(metadata),
    )


def _of_kafka(spec: Any) -> Iterator[Problem]:
    """The problems of `kafka` that matter only on a cluster; the manifest's model reports one that cannot be read."""
    kafka = spec.get("kafka") if isinstance(spec, dict) else None
    if kafka is None:
        yield _NO_KAFKA
        return
    with suppress(ValidationError):
        yield from problems_of(kafka_settings(KafkaSpec.model_validate(kafka)))
