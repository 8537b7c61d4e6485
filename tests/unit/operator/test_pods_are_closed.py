# SPDX-License-Identifier: Apache-2.0
"""Spark in pods accepts nobody who does not know the secret, and shows nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamapp.errors import ManifestError
from streamapp.spark.kubernetes import DriverPod, Executors, pods_of
from streamapp.spark.session import FIXED_SETTINGS
from streamapp_operator.manifest.app import read_app
from streamapp_operator.render.config import Credentials
from streamapp_operator.render.driver import driver_template
from streamapp_operator.render.executors import executor_template
from streamapp_operator.render.permits import PARTS
from streamapp_operator.settings import Settings

SETTINGS = Settings(pod_template_allow=PARTS)
"""Settings that allow all parts. The tests show that some fields are refused even with them."""


def test_driver_and_executors_know_each_other_and_encrypt(tmp_path: Path) -> None:
    secret = tmp_path / "rpc"
    driver = DriverPod("app-driver-0", "shop", "10.0.0.7", 7078, 7079, 1024, secret)
    executors = Executors(
        image="streamapp/runtime:1",
        image_pull_policy="IfNotPresent",
        template=tmp_path / "executor.yaml",
        prefix="app",
        processors=1,
        cpu="500m",
        cpu_limit=None,
        heap_mib=1024,
        overhead_mib=512,
    )
    settings = pods_of(driver, executors, 2, 8).settings
    assert settings["spark.authenticate"] == "true"
    assert settings["spark.authenticate.secret.file"] == str(secret)
    assert settings["spark.network.crypto.enabled"] == "true"
    assert settings["spark.network.crypto.saslFallback"] == "false"


def test_there_is_no_user_interface() -> None:
    assert FIXED_SETTINGS["spark.ui.enabled"] == "false"


def template_of(component: str, spec: Any) -> dict[str, Any]:
    """The pod template of an app with this template of its author."""
    topology = [
        {"name": "in", "stream": {"topic": "in", "value": "text"}},
        {"name": "out", "to": {"topic": "out", "value": "text"}},
    ]
    body = {
        "apiVersion": "streamapp.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "app", "uid": "1"},
        "spec": {
            "kafka": {"bootstrapServers": "kafka:9092"},
            "topology": topology,
            component: {"podTemplate": {"spec": spec}},
        },
    }
    app = read_app(body)
    if component == "driver":
        return driver_template(app, SETTINGS, Credentials("token", "rpc"))
    return executor_template(app, SETTINGS)


def test_no_executor_gets_a_token() -> None:
    assert template_of("executor", {"nodeSelector": {"disk": "fast"}})["spec"]["automountServiceAccountToken"] is False
    with pytest.raises(ManifestError, match="executors get no token for the API server; leave it out"):
        template_of("executor", {"automountServiceAccountToken": True})


def test_nor_one_that_is_mounted() -> None:
    sources: list[dict[str, Any]] = [{"configMap": {"name": "ours"}}]
    volumes = [{"name": "files", "projected": {"sources": sources}}]
    assert volumes[0] in template_of("executor", {"volumes": volumes})["spec"]["volumes"]
    sources.append({"serviceAccountToken": {"path": "token", "audience": "vault"}})
    with pytest.raises(ManifestError, match=r"volumes\[files\].*executors get no token for the API server"):
        template_of("executor", {"volumes": volumes})
    assert volumes[0] in template_of("driver", {"volumes": volumes})["spec"]["volumes"]


# --- Java's options -----------------------------------------------------------------------------------------


def with_environment(component: str, name: str, **given: Any) -> dict[str, Any]:
    return template_of(component, {"containers": [{"name": component, "env": [{"name": name, **given}]}]})


def java_options(component: str, template: dict[str, Any]) -> list[str]:
    (container,) = template["spec"]["containers"]
    return [item["value"] for item in container["env"] if item["name"] == "JDK_JAVA_OPTIONS"]


def test_java_options_of_the_user_stand_beside_ours() -> None:
    (ours,) = java_options("executor", template_of("executor", {}))
    assert "-Dspark.master=k8s://" in ours
    tuned = with_environment("executor", "JDK_JAVA_OPTIONS", value="-XX:+UseZGC -Dlog=x")
    assert java_options("executor", tuned) == [f"{ours} -XX:+UseZGC -Dlog=x"]
    assert java_options("driver", with_environment("driver", "JDK_JAVA_OPTIONS", value="-Xss2m")) == ["-Xss2m"]


@pytest.mark.parametrize("component", ["driver", "executor"])
@pytest.mark.parametrize("name", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_JAVA_OPT_9"])
@pytest.mark.parametrize("value", ["-Xss2m -Dspark.authenticate=false", "-D'spark.authenticate'=false"])
def test_settings_of_spark_among_them_are_refused(component: str, name: str, value: str) -> None:
    with pytest.raises(ManifestError) as refused:
        with_environment(component, name, value=value)
    told = f"`{component}.podTemplate.spec.containers[{component}].env[{name}]`: `spark.authenticate`: "
    assert str(refused.value) == told + "Spark's settings are not given there; take -Dspark.authenticate out"


@pytest.mark.parametrize(
    "given",
    [
        {"value": "-Xss2m @/options"},
        {"value": "$(MORE)"},
        {"value": "-XX:VMOptionsFile=x"},
        {"valueFrom": {"configMapKeyRef": {"name": "java", "key": "options"}}},
    ],
)
def test_options_that_cannot_be_seen_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(
        ManifestError, match=r"env\[JDK_JAVA_OPTIONS\]`: the options in it are not visible.*as its `value`"
    ):
        with_environment("executor", "JDK_JAVA_OPTIONS", **given)


def test_what_others_have_in_their_environment_is_theirs() -> None:
    helper = {"name": "helper", "env": [{"name": "JDK_JAVA_OPTIONS", "value": "-Dspark.of=its.own"}]}
    assert helper in template_of("executor", {"containers": [helper]})["spec"]["containers"]


@pytest.mark.parametrize("spec", [3, None, [], {"containers": 3}, {"volumes": [3]}, {"containers": [{"env": 3}]}])
def test_what_is_no_template_is_refused_or_left_to_the_api_server(spec: Any) -> None:
    if isinstance(spec, dict):
        template_of("executor", spec)
    else:
        with pytest.raises(ManifestError, match=r"`executor.podTemplate.spec`: is no map"):
            template_of("executor", spec)
