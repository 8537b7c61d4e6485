# SPDX-License-Identifier: Apache-2.0
"""The cluster does its basic work, and the images run on it: all other cluster tests rely on that."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from cluster.access import Cluster, CommandFailed
from cluster.namespace import Namespace
from cluster.pods import account, config_map, field, pod, script, service
from lib.wait import until

# The first test that needs the cluster waits for it and its images.
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_a_service_leads_to_all_of_its_pods_by_name(namespace: Namespace, runtime_image: str) -> None:
    template = pod("web", command=script("web"))
    template["spec"]["restartPolicy"] = "Always"
    probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    template["spec"]["containers"][0]["readinessProbe"] = probe
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]},
        },
    }
    namespace.apply(deployment, service("web", 8080))
    namespace.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    pods = {each["metadata"]["name"] for each in namespace.get("pods", labels="app=web")["items"]}
    assert len(pods) == 2
    answers = namespace.run_to_end(pod("client", command=script("ask", "http://web:8080", "40"))).split()
    assert len(answers) == 40
    assert set(answers) == pods


def test_a_container_that_fails_is_started_again(namespace: Namespace, runtime_image: str) -> None:
    once = pod("once", command=["bash", "-c", "[ -e /tmp/second ] && exec sleep 600; touch /tmp/second; exit 1"])
    once["spec"]["restartPolicy"] = "Always"
    namespace.apply(once)

    def lives_again() -> bool:
        (status,) = namespace.get("pod/once")["status"].get("containerStatuses") or [{"ready": False}]
        return bool(status["ready"] and status["restartCount"] >= 1)

    until(lives_again, 60, "the container's second life", every=0.2)


def test_a_pod_may_do_what_its_role_says_and_nothing_else(namespace: Namespace, runtime_image: str) -> None:
    namespace.apply(*account("reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}))
    asking = pod("asking", command=script("ask_api", "pods", "secrets"), service_account="reader")
    assert namespace.run_to_end(asking).splitlines() == ["pods 200", "secrets 403"]


def test_a_pod_that_would_be_root_is_refused(namespace: Namespace, runtime_image: str) -> None:
    lax = pod("lax", command=["true"])
    lax["spec"]["securityContext"] = {"runAsUser": 0}
    with pytest.raises(CommandFailed, match=r'violates PodSecurity "restricted:latest".*runAsNonRoot'):
        namespace.apply(lax)


@pytest.mark.parametrize("image", ["runtime_image", "operator_image"])
def test_the_images_run_as_nobody_on_a_read_only_root(
    namespace: Namespace, image: str, request: pytest.FixtureRequest
) -> None:
    folders = ["/tmp", "/var/lib/streamapp", "/opt/streamapp", "/"]
    strict = pod("strict", command=script("write", *folders), image=request.getfixturevalue(image))
    assert namespace.run_to_end(strict).splitlines() == [
        "user 10001",
        "/tmp written",
        "/var/lib/streamapp written",
        "/opt/streamapp Read-only file system",
        "/ Read-only file system",
    ]


def test_the_images_have_what_they_need_and_the_operator_no_spark(
    namespace: Namespace, runtime_image: str, operator_image: str
) -> None:
    both = ["streamapp.compile", "streamapp.kafka.admin", "streamapp_operator"]
    spark, kubernetes = ["streamapp.spark.app", "pyspark", "pyarrow", "pandas"], ["kopf", "kubernetes"]
    for name, image, there, absent in (
        ("runtime", runtime_image, both + spark, kubernetes),
        ("operator", operator_image, both + kubernetes, spark),
    ):
        said = namespace.run_to_end(pod(name, command=script("have", *there, *absent), image=image))
        assert said.splitlines() == [*(f"{module} yes" for module in there), *(f"{module} no" for module in absent)]
    assert namespace.run_to_end(pod("version", args=["--version"])).startswith("streamapp ")


def test_each_image_says_what_it_is_made_of(namespace: Namespace, runtime_image: str, operator_image: str) -> None:
    """It has as many packages and jars as its own tools find, and the well-known ones at their versions."""
    versions = {name: version(name) for name in ("confluent-kafka", "pyspark")}
    for name, image, looked_for in (
        ("runtime", runtime_image, ["pkg:maven/org.apache.kafka/kafka-clients@4.1.0", "pkg:pypi/pyspark@{pyspark}"]),
        ("operator", operator_image, ["pkg:pypi/confluent-kafka@{confluent-kafka}"]),
    ):
        said = json.loads(namespace.run_to_end(pod(name, command=script("made_of"), image=image)))
        assert said["listed"] == said["found"]
        assert (said["found"]["maven"] > 0) == (name == "runtime")
        assert {purl.format(**versions) for purl in looked_for} <= set(said["purls"])


def test_lines_go_through_a_broker_in_a_pod(namespace: Namespace, runtime_image: str) -> None:
    host = f"kafka.{namespace.name}.svc"
    address = f"{host}:9092"
    broker = pod("kafka", args=["broker", "--host", "0.0.0.0", "--advertised-host", host, "--port", "9092"])
    broker["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 9092}, "periodSeconds": 1}
    namespace.apply(service("kafka", 9092, headless=True), broker)
    namespace.await_ready("pod/kafka")
    namespace.kubectl("exec", "kafka", "--", *script("make_topic", address, "lines"))
    namespace.kubectl("exec", "-i", "kafka", "--", "streamapp", "produce", "lines", stdin="to be\nor not\n")
    read = ["consume", "lines", "--from-beginning", "--max", "2", "--bootstrap-servers", address]
    assert namespace.run_to_end(pod("reader", args=read)).splitlines() == ["to be", "or not"]


@pytest.mark.chaos  # every app's test does this, and more
def test_a_spark_driver_in_a_pod_counts_with_two_executor_pods(namespace: Namespace, runtime_image: str) -> None:
    what_spark_needs = {
        "apiGroups": [""],
        "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"],
        "verbs": ["create", "get", "list", "watch", "patch", "update", "delete", "deletecollection"],
    }
    executor = pod("executor", image=runtime_image)
    del executor["metadata"]["name"]  # Spark gives each one its own
    namespace.apply(
        *account("spark", what_spark_needs),
        config_map("files", {"executor.json": json.dumps(executor)}),
        service("driver", 7078, headless=True),
    )
    driver = pod("driver", command=script("count"), service_account="spark", files="files")
    driver["spec"]["containers"][0]["env"] += [
        field("NAMESPACE", "metadata.namespace"),
        {"name": "IMAGE", "value": runtime_image},
    ]
    log = namespace.run_to_end(driver, seconds=240)
    assert [line for line in log.splitlines() if line.startswith(("executors ", "sum "))] == ["executors 2", "sum 780"]


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: note\nversion: 0.1.0\n",
    "values.yaml": "text: first\n",
    "templates/note.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note}\ndata: {text: {{ .Values.text | quote }}}\n"
    ),
}


def test_helm_installs_upgrades_and_takes_back(cluster: Cluster, namespace: Namespace, tmp_path: Path) -> None:
    for name, content in CHART.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)

    def text() -> str:
        found: str = namespace.get("configmap/note")["data"]["text"]
        return found

    cluster.helm("install", "note", str(tmp_path), "-n", namespace.name)
    assert text() == "first"
    cluster.helm("upgrade", "note", str(tmp_path), "-n", namespace.name, "--set", "text=second")
    assert text() == "second"
    cluster.helm("rollback", "note", "1", "-n", namespace.name)
    assert text() == "first"
    cluster.helm("uninstall", "note", "-n", namespace.name)
    assert not cluster.has("configmap/note", namespace.name)
