# SPDX-License-Identifier: Apache-2.0
"""A user who may create StreamApps gets nothing more by a pod template: each field of a pod is harmless or allowed by a
value of the chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from lib.operator import WORD_COUNT
from lib.permits import REFUSED, TAKEN
from lib.simulated import Simulation
from streamapp_operator.render.permits import (
    CONTAINER_FIELDS,
    FREE_MOUNTS,
    LOADERS,
    OUR_VARIABLES,
    OUR_VOLUMES,
    PARTS,
    PLAIN,
    POD_FIELDS,
    VOLUME_FIELDS,
    problem_of_image,
    problems_of_template,
)
from streamapp_operator.settings import Settings

SPEC = yaml.safe_load(WORD_COUNT)["spec"]
HARMLESS = {
    client.V1PodSpec: {
        "activeDeadlineSeconds",
        "affinity",
        "dnsPolicy",
        "enableServiceLinks",
        "imagePullSecrets",
        "nodeSelector",
        "preemptionPolicy",
        "priorityClassName",
        "resources",
        "restartPolicy",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "containers",
        "securityContext",
        "volumes",  # which are looked into
    },
    client.V1Container: {
        "imagePullPolicy",
        "name",
        "resizePolicy",
        "resources",
        "env",
        "ports",
        "securityContext",
        "volumeMounts",  # which are looked into
    },
    client.V1Volume: {
        "configMap",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "name",
        "persistentVolumeClaim",
        "projected",
        "secret",
    },
    client.V1SecurityContext: set(),
    client.V1PodSecurityContext: set(),
}


def parts_of(spec: Any) -> list[str]:
    """The parts that the fixes name, of all that is refused."""
    problems = problems_of_template("driver", {"spec": spec}, Settings())
    return [str(problem).rpartition("[")[2].rstrip("]") for problem in problems]


def spec_with(kind: type, field: str) -> dict[str, Any]:
    """A spec with any value in a field of a part of a pod."""
    value: Any = "x"
    if kind is client.V1PodSpec:
        return {field: value}
    if kind is client.V1PodSecurityContext:
        return {"securityContext": {field: {"odd": 1}}}
    if kind is client.V1Volume:
        return {"volumes": [{"name": "theirs", field: value}]}
    container = {"securityContext": {field: {"odd": 1}}} if kind is client.V1SecurityContext else {field: value}
    return {"containers": [{**container, "name": "driver"}]}


@pytest.mark.parametrize("kind", HARMLESS, ids=lambda kind: kind.__name__)
def test_each_field_that_kubernetes_has_is_harmless_or_refused(kind: Any) -> None:
    fields = {*kind.attribute_map.values(), "aFieldOfTomorrow"}
    assert {field for field in fields if not parts_of(spec_with(kind, field))} == HARMLESS[kind]
    assert all(part in PARTS for field in fields for part in parts_of(spec_with(kind, field)))


@pytest.mark.parametrize(("template", "part", "field"), REFUSED)
def test_what_gives_more_is_refused_and_allowed_by_its_part_alone(template: Any, part: str, field: str) -> None:
    (problem,) = problems_of_template("driver", template, Settings())
    assert f"`driver.podTemplate.{field}`" in str(problem)
    assert f"apps.podTemplate.allow: [{part}]" in str(problem)
    assert not list(problems_of_template("driver", template, Settings(pod_template_allow=(part,))))
    others = tuple(other for other in PARTS if other != part)
    assert list(problems_of_template("driver", template, Settings(pod_template_allow=others)))


@pytest.mark.parametrize("template", TAKEN)
def test_what_is_harmless_is_taken(template: Any) -> None:
    assert not list(problems_of_template("driver", template, Settings()))


@pytest.mark.parametrize("odd", [None, "x", [], {"spec": []}, {"spec": {"containers": {}, "volumes": 1}}])
def test_templates_of_another_shape_do_no_harm(odd: Any) -> None:
    assert not list(problems_of_template("driver", odd, Settings()))


def test_an_app_is_told_and_runs_when_it_is_mended() -> None:
    app = Simulation()
    app.apply(10, **SPEC, driver={"podTemplate": {"spec": {"hostPID": True}}})
    told = app.condition("TopologyValid")
    assert told["status"] == "False"
    assert "`driver.podTemplate.spec.hostPID`: True is not allowed by the operator's settings" in told["message"]
    assert app.driver is None
    app.apply(60, **SPEC)
    assert app.condition("TopologyValid")["status"] == "True"


def test_an_app_that_was_there_before_runs_on_and_can_be_suspended() -> None:
    app = Simulation(settings=Settings(pod_template_allow=("hostNamespaces",)))
    spec = {**SPEC, "driver": {"podTemplate": {"spec": {"hostPID": True}}}}
    app.apply(60, **spec)
    assert app.driver is not None
    app.settings = Settings()
    app.run(10)
    assert app.driver is not None
    assert app.condition("TopologyValid")["status"] == "False"
    app.apply(60, **spec, suspend=True)
    assert app.running == ""
    assert app.status["phase"] == "Suspended"
    app.apply(30, **spec)
    assert app.running == "", "it is judged when it is resumed"
    assert app.status["phase"] == "Invalid"


@pytest.mark.parametrize("before", [False, True])
def test_a_suspended_app_gets_nothing_into_its_objects_that_is_refused(before: bool) -> None:
    """Otherwise anybody who may scale a StatefulSet could make a pod of it."""
    app = Simulation()
    if before:
        app.apply(60, **SPEC)
    app.apply(60, **SPEC, suspend=True, driver={"podTemplate": {"spec": {"hostPID": True}}})
    assert app.driver is None
    assert "apps.podTemplate.allow: [hostNamespaces]" in app.condition("TopologyValid")["message"]
    assert "hostPID" not in str(app.children["StatefulSet", "app-driver"] if before else app.children)


@pytest.mark.parametrize(
    ("image", "taken"),
    [
        ("registry.example/a", True),
        ("registry.example/a/b:1", True),
        ("registry.example/a@sha256:0", True),
        ("registry.example/ab:1", False),
        ("elsewhere/x", False),
        (Settings().image, True),
        (None, True),
    ],
)
def test_images_come_from_where_they_may(image: str | None, taken: bool) -> None:
    problem = problem_of_image(image, Settings(allowed_images=("registry.example/a/",)))
    assert (problem is None) == taken
    assert problem_of_image(image, Settings()) is None


def test_the_chart_has_the_operators_tables(root: Path) -> None:
    def by_part(table: Any) -> dict[str, list[str]]:
        return {part or "plain": sorted(f for f in table if table[f] == part) for part in {*table.values()}}

    written = yaml.safe_load((root / "charts/streamapp-operator/files/pod-fields.yaml").read_text())
    assert written == {
        "pod": by_part({**POD_FIELDS, **dict.fromkeys(("containers", "securityContext", "volumes"), PLAIN)}),
        "container": by_part(
            {**CONTAINER_FIELDS, **dict.fromkeys(("env", "ports", "securityContext", "volumeMounts"), PLAIN)}
        ),
        "volume": by_part(VOLUME_FIELDS),
        "freeMounts": list(FREE_MOUNTS),
        "ourVolumes": list(OUR_VOLUMES),
        "variables": "|".join([*OUR_VARIABLES, LOADERS.pattern]),
    }
    schema = yaml.safe_load((root / "charts/streamapp-operator/values.schema.json").read_text())
    apps = schema["properties"]["apps"]["properties"]
    assert tuple(apps["podTemplate"]["properties"]["allow"]["items"]["enum"]) == PARTS
