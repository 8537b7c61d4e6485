# SPDX-License-Identifier: Apache-2.0
"""The chart on a cluster: installed, tested, upgraded, taken back, removed; and the operator that it brings at work."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.access import Cluster, CommandFailed
from cluster.install import image_options
from cluster.namespace import Namespace
from cluster.word_count import LINES, WordCount
from lib.chart import CHART, VALUES
from lib.definitions import await_served
from lib.left_out import or_left_out
from lib.monitoring import definitions
from lib.operator import WORD_COUNT
from lib.wait import until
from streamapp.cli.main import main
from streamapp.kafka.config import KafkaConfig

# The first test that needs the cluster waits for it and its images.
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

CRD = "customresourcedefinition/streamapps.streamapp.dev"
DEFINITION = {
    "customresourcedefinition.apiextensions.k8s.io/streamapps.streamapp.dev",
    "apiservice.apiregistration.k8s.io/v1alpha1.streamapp.dev",
}
"""The definition, and the objects that Kubernetes makes from it by itself."""
NAME = "ops-streamapp-operator"
SECONDS = 120.0
OF_OTHERS = {
    "events",
    "events.events.k8s.io",
    "componentstatuses",
    "namespaces",
    "nodes",
    "csinodes.storage.k8s.io",
    "ipaddresses.networking.k8s.io",
}
"""Kinds of which the cluster makes and removes objects by itself, or for other tests."""


class Release:
    """The chart as release `ops` in a namespace."""

    def __init__(self, cluster: Cluster, namespace: Namespace) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._images = image_options()

    def helm(self, verb: str, *arguments: str, chart: Path | None = None) -> str:
        place = ["-n", self.namespace.name]
        if chart is not None:
            wait = ["--wait", f"--timeout={SECONDS:g}s", "--set", "watch.ownNamespace=true"]
            return self.cluster.helm(verb, "ops", str(chart), *place, *wait, *self._images, *arguments)
        return self.cluster.helm(verb, "ops", *place, *arguments)

    @property
    def pod(self) -> str:
        """The operator's only pod that is not being deleted."""
        pods = self.namespace.get("pods", labels="app.kubernetes.io/component=operator")["items"]
        (name,) = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return str(name)

    @property
    def holder(self) -> str:
        """The holder of the Lease: the name of a pod, with a suffix."""
        return str(self.namespace.get(f"lease/{NAME}").get("spec", {}).get("holderIdentity", ""))

    def await_leader(self) -> None:
        until(lambda: self.holder.startswith(f"{self.pod}-"), 60, "the new operator holds the Lease", every=0.5)

    def leftovers(self) -> list[str]:
        """All objects with the release's labels, anywhere."""
        kinds = self.cluster.kubectl("api-resources", "--verbs=list,delete", "-o", "name").split()
        found = self.cluster.kubectl(
            "get", ",".join(kinds), "--all-namespaces", "-o", "json", "-l", "app.kubernetes.io/instance=ops"
        )
        return [f"{each['kind']} {each['metadata']['name']}" for each in json.loads(found)["items"]]

    def everything(self) -> set[str]:
        """Every object of the namespace, and every cluster-wide one: `kind/name`."""
        found: set[str] = set()
        for namespaced, place in (("true", ["-n", self.namespace.name]), ("false", [])):
            kinds = self.cluster.kubectl(
                "api-resources", "--verbs=list", f"--namespaced={namespaced}", "-o", "name"
            ).split()
            listed = ",".join(kind for kind in kinds if kind not in OF_OTHERS)
            found |= set(self.cluster.kubectl("get", listed, *place, "-o", "name").split())
        return found


@pytest.fixture
def release(cluster: Cluster, namespace: Namespace, operator_image: str, root: Path) -> Iterator[Release]:
    """The release, not installed yet. If the definition exists already, it is given to this release, and stays."""
    made, kept = Release(cluster, namespace), cluster.has(CRD)
    if kept:
        owner = (f"meta.helm.sh/release-{part}" for part in ("name", "namespace"))
        values = (f"{key}={value}" for key, value in zip(owner, ("ops", namespace.name), strict=True))
        cluster.kubectl("annotate", CRD, "--overwrite", *values)
        cluster.kubectl("label", CRD, "--overwrite", "app.kubernetes.io/managed-by=Helm")
    try:
        yield made
    finally:
        if "ops" in cluster.helm("list", "-n", namespace.name, "-q").split():
            made.helm("uninstall", "--wait")
        if kept:
            cluster.apply(root / "crds" / "streamapp.yaml")
        elif cluster.has(CRD):
            cluster.kubectl("delete", CRD)


def install(release: Release, chart: Path = CHART, *options: str) -> str:
    try:
        return release.helm("install", *options, chart=chart)
    except CommandFailed as error:
        pods = release.namespace.get("pods", labels="app.kubernetes.io/component=operator")["items"]
        words = [release.namespace.describe(pod["metadata"]["name"]) for pod in pods]
        raise AssertionError("\n".join([str(error), *words])) from None


def fields_of_the_definition(cluster: Cluster) -> set[str]:
    found = cluster.get(CRD)
    schema: dict[str, Any] = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return set(schema["properties"]["spec"]["properties"])


def older_chart(folder: Path) -> Path:
    """The chart as a release before this one may have had it: its definition lacks a field."""
    older = shutil.copytree(CHART, folder / "older")
    chart = yaml.safe_load((older / "Chart.yaml").read_text()) | {"version": "0.0.9", "appVersion": "0.0.9"}
    (older / "Chart.yaml").write_text(yaml.safe_dump(chart))
    definition = older / "files" / "streamapp.yaml"
    text = definition.read_text()
    body = yaml.safe_load(text)
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["properties"].pop("startFrom")
    head = text[: text.index("spec:\n")]  # the template looks for exactly these words
    definition.write_text(head + yaml.safe_dump({"spec": body["spec"]}))
    return older


def test_install_upgrade_rollback_uninstall(
    cluster: Cluster,
    release: Release,
    namespace: Namespace,
    runtime_image: str,
    pods_kafka: KafkaConfig,
    root: Path,
    tmp_path: Path,
) -> None:
    """An app processes records all along, and does not notice."""
    notes = install(release, older_chart(tmp_path))
    assert f"runs the StreamApps of these namespaces: {namespace.name}." in notes
    assert "startFrom" not in fields_of_the_definition(cluster)
    first = release.pod
    release.await_leader()
    assert "Phase:          Succeeded" in release.helm("test")

    words = WordCount(namespace, pods_kafka, root)
    words.begin()
    words.say(*LINES)
    words.await_ready()
    driver = words.driver_container()

    release.helm("upgrade", "--set", "logLevel=DEBUG", chart=CHART)
    assert "startFrom" in fields_of_the_definition(cluster)
    second = release.pod
    assert second != first
    release.await_leader()
    words.say(*LINES)
    words.await_counts(2 * LINES)

    release.helm("rollback", "1", "--wait")
    assert "startFrom" not in fields_of_the_definition(cluster)
    third = release.pod
    assert third != second
    release.await_leader()
    words.say(*LINES)
    words.await_counts(3 * LINES)
    words.patch(replicas=2)
    words.await_executors(2)  # it is still taken care of

    release.helm("uninstall", "--wait")
    until(lambda: not release.leftovers(), 60, "nothing of the release is left", every=0.5)
    assert cluster.has(CRD), "keep"
    words.say(*LINES)
    words.await_counts(4 * LINES)
    assert words.driver_container() == driver, "the app went on"

    # A release of the same name takes over the kept objects.
    install(release)
    release.await_leader()


@pytest.fixture
def monitoring(cluster: Cluster) -> Iterator[None]:
    """Makes the cluster know PodMonitor and PrometheusRule."""
    of_files = {f"{file.stem}.monitoring.coreos.com": file for file in or_left_out(definitions)}
    missing = {name: file for name, file in of_files.items() if not cluster.has(f"crd/{name}")}
    for name, file in missing.items():
        cluster.kubectl("create", "-f", str(file))
        await_served(cluster.kubectl, name)
    yield
    for file in missing.values():
        cluster.kubectl("delete", "-f", str(file))


HERE_TOO = [
    "nodeSelector=null",
    "affinity=null",
    "extraEnv=null",
    "resources.requests.cpu=20m",
    *(f"{image}.{value}" for image in ("image", "apps.image") for value in ("registry=", "pullPolicy=IfNotPresent")),
    "image.digest=",
]
"""Values that pods need to run here."""


@pytest.mark.parametrize("values", ["default", "everything", "cluster-wide"])
def test_what_uninstalling_leaves(
    cluster: Cluster, release: Release, namespace: Namespace, monitoring: None, values: str
) -> None:
    """The cluster keeps the objects from before, and those that the values keep."""
    until(lambda: cluster.has("configmap/kube-root-ca.crt", namespace.name), 30, "the namespace is whole")
    file = next(file for file in VALUES if file.stem == values)
    chosen = [*HERE_TOO, f"dashboards.namespace={namespace.name}"]
    keep = yaml.safe_load(file.read_text()).get("crds", {}).get("keep", True)
    if cluster.has(CRD):  # somebody else's, with their apps
        keep, chosen = True, [*chosen, "crds.keep=true"]
    before = release.everything()
    install(release, CHART, "--values", str(file), *(word for value in chosen for word in ("--set", value)))
    lease = next(each for each in release.everything() - before if each.startswith("lease."))
    name = lease.partition("/")[2]
    until(lambda: namespace.get(f"lease/{name}").get("spec", {}).get("holderIdentity"), 60, "an operator acts")
    assert "Phase:          Succeeded" in release.helm("test")
    release.helm("uninstall", "--wait")
    kept = DEFINITION - before if keep else set()
    with suppress(AssertionError):  # which would not report the objects that are left
        until(lambda: release.everything() - before == kept, 60, "nothing more is left", every=0.5)
    assert release.everything() - before == kept


def test_the_operator_waits_for_the_definition(
    definition: bool, cluster: Cluster, release: Release, root: Path
) -> None:
    if not definition:
        pytest.skip("somebody else has installed the definition")
    cluster.kubectl("delete", CRD)  # with the apps of finished tests
    release.cluster.helm(
        "install", "ops", str(CHART), "-n", release.namespace.name, *release._images, "--set", "crds.install=false"
    )
    said = "waiting: the cluster does not know streamapps.streamapp.dev"
    deployment = f"deployment/{NAME}"
    until(lambda: said in logs(release, deployment), SECONDS, "the operator says what it waits for", every=0.5)
    cluster.apply(root / "crds" / "streamapp.yaml")
    release.namespace.kubectl("rollout", "status", deployment, f"--timeout={SECONDS:g}s", seconds=SECONDS + 10)
    release.await_leader()


def logs(release: Release, what: str) -> str:
    try:
        return release.namespace.kubectl("logs", what)
    except CommandFailed as error:
        return error.said


def test_what_is_wrong_with_an_app_is_told(
    release: Release, runtime_image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No Kafka is at the manifest's address: the driver ends, and conditions, status and logs have its last words."""
    install(release)
    namespace = release.namespace
    namespace.apply(WORD_COUNT.replace("kafka:9092", "127.0.0.1:9"))
    place = ["--kubeconfig", str(release.cluster.kubeconfig), "--namespace", namespace.name]

    def streamapp(*arguments: str) -> str:
        capsys.readouterr()
        main([*arguments, *place])
        return capsys.readouterr().out

    def failed() -> str:  # until the next try
        page = streamapp("status", "word-count")
        return page if "DriverFailed" in page else ""

    words = "no Kafka broker answers at 127.0.0.1:9"
    assert words in until(failed, SECONDS, "the driver has failed", every=1.0)
    until(
        lambda: words in streamapp("logs", "word-count") + streamapp("logs", "word-count", "--previous"),
        60,
        "the driver's log has its words",
        every=1.0,
    )
