# SPDX-License-Identifier: Apache-2.0
"""The output of Helm for the chart."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.binaries import KUBERNETES
from lib.apiserver import ApiServer
from lib.chart import CHART, VALUES, Helm, Object, Render
from lib.definitions import await_served
from lib.left_out import or_left_out
from lib.monitoring import definitions
from lib.operator import WORD_COUNT
from streamapp_operator.__main__ import settings_of
from streamapp_operator.manifest.app import read_app
from streamapp_operator.render import Credentials
from streamapp_operator.render import render as render_app
from streamapp_operator.render.config import TEMPLATE
from streamapp_operator.settings import Settings

pytestmark = pytest.mark.cluster  # needs no node, but the programs of the test cluster

HERE = Path(__file__).parent
CRD = "CustomResourceDefinition"
each_values = pytest.mark.parametrize("values", VALUES, ids=lambda file: file.stem)


def operator_of(objects: list[Object]) -> Object:
    """The operator's container."""
    (deployment,) = [item for item in objects if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(container)


def variable(container: Object, name: str) -> str | None:
    return next((str(item["value"]) for item in container["env"] if item["name"] == name), None)


@each_values
def test_lint(helm: Helm, values: Path) -> None:
    done = helm("lint", str(CHART), "--strict", "--kube-version", KUBERNETES, "--values", str(values))
    assert done.returncode == 0, done.stdout + done.stderr


@each_values
def test_the_objects(render: Render, values: Path, golden: Callable[[Path, str], None]) -> None:
    """All but the definition, and dashboards and rules without their content: those have tests of their own."""
    objects = [item for item in render("--values", str(values)) if item["kind"] != CRD]
    for item in objects:
        if "grafana_dashboard" in item["metadata"]["labels"]:
            item["data"] = dict.fromkeys(item["data"], "...")
        if item["kind"] == "PrometheusRule":
            item["spec"] = {"groups": [group["name"] for group in item["spec"]["groups"]]}
    golden(HERE / "rendered" / values.name, yaml.safe_dump_all(objects, sort_keys=False, width=120))


@pytest.fixture(scope="session")
def monitored(api: ApiServer) -> ApiServer:
    """The API server, which knows PodMonitor and PrometheusRule."""
    for file in or_left_out(definitions):
        api.kubectl("apply", "--server-side", "-f", str(file))
        await_served(api.kubectl, f"{file.stem}.monitoring.coreos.com")
    return api


@each_values
def test_an_api_server_takes_every_object(monitored: ApiServer, render: Render, values: Path) -> None:
    """It gives no warning, so it knows every field, and the pods are `restricted`."""
    said = tried(monitored, objects := render("--values", str(values)))
    lines = said.splitlines()
    assert len(lines) == len(objects), said
    assert all(line.endswith("serverside-applied (server dry run)") for line in lines), said


@pytest.mark.parametrize(
    ("kind", "path", "wrong", "word"),
    [
        ("PodMonitor", ("podMetricsEndpoints", 0, "intervall"), "30s", "intervall"),
        ("PodMonitor", ("podMetricsEndpoints", 0, "interval"), "often", "interval"),
        ("PrometheusRule", ("groups", 0, "rules", 0, "for"), "a while", "for"),
        ("PrometheusRule", ("groups", 0, "rules", 0, "sumary"), "x", "sumary"),
    ],
)
def test_a_mistake_in_what_is_monitored_is_noticed(
    monitored: ApiServer, render: Render, kind: str, path: tuple[Any, ...], wrong: str, word: str
) -> None:
    objects = [item for item in render("--values", str(HERE / "values" / "everything.yaml")) if item["kind"] == kind]
    place = objects[0]["spec"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = wrong
    refused = [line for line in tried(monitored, objects).splitlines() if "(server dry run)" not in line]
    assert word in "\n".join(refused)


def tried(api: ApiServer, objects: list[Object]) -> str:
    """The API server's answers to a dry run of these objects: one line for each valid one. Makes their namespaces."""
    named = {item["metadata"].get("namespace") for item in objects} - {None}
    for namespace in named:
        made = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace,
                "labels": {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")},
            },
        }
        api.kubectl("apply", "-f", "-", text=yaml.safe_dump(made))
    return api.kubectl(
        "apply",
        "--dry-run=server",
        "--server-side",
        "--force-conflicts",
        "--validate=strict",
        "-f",
        "-",
        text=yaml.safe_dump_all(objects),
        check=False,
    )


def test_the_definition_is_that_of_the_manifest(root: Path, render: Render) -> None:
    text = (root / "crds" / "streamapp.yaml").read_text()
    assert (CHART / "files" / "streamapp.yaml").read_text() == text, "run `make crd`"
    wanted = yaml.safe_load(text)

    def definitions(*options: str) -> list[Object]:
        return [item for item in render(*options) if item["kind"] == CRD]

    assert definitions("--set", "crds.keep=false") == [wanted]
    wanted["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    assert definitions() == [wanted]
    assert definitions("--set", "crds.install=false") == []


def test_what_apps_get_is_what_the_operator_does_without_a_chart(render: Render) -> None:
    """The chart's values and the operator's own defaults say the same."""
    given = settings_of(variable(operator_of(render()), "STREAMAPP_SETTINGS") or "")
    assert given == Settings(image="streamapp/runtime:0.1.0")


def test_images(render: Render) -> None:
    digest = f"sha256:{'0' * 64}"
    for options, image in (
        ((), "streamapp/operator:0.1.0"),
        (("--set", "image.tag=v2"), "streamapp/operator:v2"),
        (("--set", "image.registry=r:1,image.digest=" + digest), f"r:1/streamapp/operator@{digest}"),
    ):
        assert operator_of(render(*options))["image"] == image


def test_what_is_watched(render: Render) -> None:
    for options, namespaces, cluster_wide in (
        ((), "default", None),
        (("--set", "watch.namespaces={b,a}"), "a,b", None),
        (("--set", "watch.ownNamespace=true"), "streams", None),
        (("--set", "watch.namespaces={b,a},watch.ownNamespace=true"), "a,b,streams", None),
        (("--set", "watch.clusterWide=true"), None, "true"),
    ):
        container = operator_of(render(*options))
        assert variable(container, "STREAMAPP_NAMESPACES") == namespaces
        assert variable(container, "STREAMAPP_CLUSTER_WIDE") == cluster_wide


def test_common_labels_are_on_every_object(render: Render) -> None:
    everything = str(HERE / "values" / "everything.yaml")
    objects = render("--values", everything, "--set", "commonLabels.team=data,rbac.aggregateToDefaultRoles=true")
    kinds = {item["kind"] for item in objects}
    assert {CRD, "Pod", "Deployment", "ConfigMap", "PrometheusRule", "ClusterRole"} <= kinds
    templates = [item["spec"]["template"] for item in objects if item["kind"] == "Deployment"]
    bare = [item for item in (*objects, *templates) if item["metadata"].get("labels", {}).get("team") != "data"]
    assert bare == []


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("imag.tag=1", "imag"),
        ("image.tags=1", "tags"),
        ("image.tag=2", "/image/tag"),  # numbers are refused: of 1.10 they would leave 1.1
        ("replicas=many", "replicas"),
        ("replicas=-1", "replicas"),
        ("logLevel=LOUD", "logLevel"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("image.digest=abc", "digest"),
        ("watch.namespaces={Shop}", "namespaces"),
        ("service.port=80", "port"),
        ("podMonitor.interval=often", "interval"),
        ("imagePullSecrets={pull}", "imagePullSecrets"),
        ("apps.driver.resources.limit.memory=1Gi", "limit"),
        ("networkPolicy.kafkaPorts={kafka}", "kafkaPorts"),
        ("watch.clusterWide=true,watch.namespaces={a}", "say one of the two"),
        ("watch.namespaces={a,streams}", "apps in namespace 'streams' could take the account of the operator"),
        ("serviceAccount.create=false", "say which ServiceAccount there is"),
    ],
)
def test_wrong_values_are_refused(helm: Helm, setting: str, said: str) -> None:
    done = helm("template", "ops", str(CHART), "-n", "streams", "--kube-version", KUBERNETES, "--set", setting)
    assert done.returncode != 0
    assert said in done.stderr


_WHOLE = ("resources", "strategy", "livenessProbe", "readinessProbe")
"""Values that Kubernetes defines, and that need not have all of their parts here."""


def names(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The names of all values in the schema; for a section, those of its content."""
    for key, inner in schema["properties"].items():
        if inner.get("properties") and key not in _WHOLE:
            yield from names(inner, f"{path}{key}.")
        else:
            yield f"{path}{key}"


def described(text: str) -> dict[str, str]:
    """The values of a file that have a comment above them, and that comment."""
    found: dict[str, str] = {}
    section: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        if key := re.match(r"( *)(\w+):", line):
            del section[len(key[1]) // 2 :]
            section.append(key[2])
            if comment:
                found[".".join(section)] = " ".join(comment)
        said = re.match(r" *# (.*)", line)
        comment = [*comment, said[1]] if said else []
    return found


def test_every_value_of_the_schema_stands_in_the_file_and_is_described() -> None:
    known = set(names(json.loads((CHART / "values.schema.json").read_text())))
    assert known - set(described((CHART / "values.yaml").read_text())) == set()


def test_the_readme_has_every_value(golden: Callable[[Path, str], None]) -> None:
    """Each with its default and the comment in the file of values."""
    readme, text = CHART / "README.md", (CHART / "values.yaml").read_text()
    defaults, about = yaml.safe_load(text), described(text)
    lines = ["| value | default | |", "|---|---|---|"]
    for name in names(json.loads((CHART / "values.schema.json").read_text())):
        value: Any = defaults
        for part in name.split("."):
            value = value[part]
        said = about[name].replace("|", "\\|")
        lines.append(f"| `{name}` | `{json.dumps(value)}` | {said} |")
    head, mark, _ = readme.read_text().partition("## Values\n")
    assert mark
    golden(readme, f"{head}{mark}\n" + "\n".join(lines) + "\n")


def test_the_plain_yaml_is_what_the_chart_makes_by_default(
    root: Path, helm: Helm, api: ApiServer, golden: Callable[[Path, str], None]
) -> None:
    """For those who have no Helm. The definition is a file of its own."""
    place = ("--namespace", "streamapp", "--kube-version", KUBERNETES)
    done = helm("template", "streamapp-operator", str(CHART), *place, "--no-hooks", "--set", "crds.install=false")
    assert done.returncode == 0, done.stderr
    # Helm's own words about itself are of no use to others.
    objects = [item for item in yaml.safe_load_all(done.stdout) if item]
    for item in objects:
        del item["metadata"]["labels"]["helm.sh/chart"]
        item["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "kubectl"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "streamapp", "labels": labels}}
    head = "# SPDX-License-Identifier: Apache-2.0\n# The objects of the chart by default, in namespace streamapp.\n"
    golden(root / "deploy" / "operator.yaml", head + yaml.safe_dump_all([namespace, *objects], sort_keys=False))
    said = tried(api, objects)
    assert len(said.splitlines()) == len(objects), said


def test_what_all_apps_have_in_common(render: Render) -> None:
    """Values of the chart apply to all apps; an app's own template overrides them."""
    values = {
        "podLabels": {"team": "data", "cost": "1"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "streams", "operator": "Exists"}],
        "priorityClassName": "high",
        "serviceAccount": {"annotations": {"cloud.example/role": "streams"}},
        "executor": {"podTemplate": {"spec": {"nodeSelector": {"disk": "nvme"}, "runtimeClassName": "kata"}}},
    }
    chart = render("--set-json", f"apps={json.dumps(values)}")
    settings = settings_of(variable(operator_of(chart), "STREAMAPP_SETTINGS") or "")
    body = yaml.safe_load(WORD_COUNT)
    body["metadata"] |= {"namespace": "shop", "uid": "app-uid", "generation": 1}
    theirs = {"metadata": {"labels": {"cost": "2"}}, "spec": {"priorityClassName": "low"}}
    body["spec"]["driver"] = {"podTemplate": theirs}
    objects = render_app(read_app(body), settings, Credentials("token", "secret"))
    found = {item["kind"]: item for item in objects}
    driver = found["StatefulSet"]["spec"]["template"]
    executor = yaml.safe_load(found["ConfigMap"]["data"][TEMPLATE])
    assert found["ServiceAccount"]["metadata"]["annotations"]["cloud.example/role"] == "streams"
    for pod, cost, disk, priority in ((driver, "2", "ssd", "low"), (executor, "1", "nvme", "high")):
        assert (pod["metadata"]["labels"]["team"], pod["metadata"]["labels"]["cost"]) == ("data", cost)
        assert (pod["spec"]["nodeSelector"], pod["spec"]["priorityClassName"]) == ({"disk": disk}, priority)
        assert {"key": "streams", "operator": "Exists"} in pod["spec"]["tolerations"]
    assert executor["spec"]["runtimeClassName"] == "kata"


def test_what_is_global_goes_for_every_image(render: Render) -> None:
    values = {"imageRegistry": "registry.example:5000", "imagePullSecrets": ["pull", {"name": "other"}]}
    chart = render("--set-json", f"global={json.dumps(values)}", "--set", "image.registry=mine.example")
    settings = settings_of(variable(operator_of(chart), "STREAMAPP_SETTINGS") or "")
    assert operator_of(chart)["image"] == "mine.example/streamapp/operator:0.1.0"
    assert settings.image == "registry.example:5000/streamapp/runtime:0.1.0"
    assert settings.image_pull_secrets == ("pull", "other")
    pods = [item["spec"] for item in chart if item["kind"] == "Pod"]
    pods += [item["spec"]["template"]["spec"] for item in chart if item["kind"] == "Deployment"]
    assert {json.dumps(pod["imagePullSecrets"]) for pod in pods} == {'[{"name": "pull"}, {"name": "other"}]'}


def test_drivers_are_found_by_what_they_have(render: Render) -> None:
    """The labels by which the operator and Prometheus find drivers."""
    body = yaml.safe_load(WORD_COUNT)
    body["metadata"] |= {"namespace": "shop", "uid": "app-uid", "generation": 1}
    objects = render_app(read_app(body), Settings(image="streamapp/runtime:0.1.0"), Credentials("token", "secret"))
    (driver,) = [item for item in objects if item["kind"] == "StatefulSet"]
    template = driver["spec"]["template"]
    ports = {port["name"]: port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}
    chart = render("--set", "networkPolicy.enabled=true,podMonitor.enabled=true")
    (policy,) = [item for item in chart if item["kind"] == "NetworkPolicy"]
    (to_drivers,) = [rule for rule in policy["spec"]["egress"] if "to" in rule]
    (monitor,) = [item for item in chart if item["kind"] == "PodMonitor" and item["metadata"]["name"].endswith("-apps")]
    (peer,), (endpoint,) = to_drivers["to"], monitor["spec"]["podMetricsEndpoints"]
    for labels in (peer["podSelector"]["matchLabels"], monitor["spec"]["selector"]["matchLabels"]):
        assert labels.items() <= template["metadata"]["labels"].items()
    assert to_drivers["ports"] == [{"protocol": "TCP", "port": ports[endpoint["port"]]}]


def test_the_operator_is_found_by_what_it_has(render: Render) -> None:
    chart = render("--set", "networkPolicy.enabled=true,podMonitor.enabled=true")
    (deployment,) = [item for item in chart if item["kind"] == "Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"]: port["containerPort"] for port in operator_of(chart)["ports"]}
    (policy,) = [item for item in chart if item["kind"] == "NetworkPolicy"]
    (monitor,) = [
        item for item in chart if item["kind"] == "PodMonitor" and not item["metadata"]["name"].endswith("-apps")
    ]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (ingress,) = policy["spec"]["ingress"]
    assert [port["port"] for port in ingress["ports"]] == [ports[endpoint["port"]]]


def test_the_pod_of_helm_test_is_let_in_with_those_who_are_named(render: Render) -> None:
    named = {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}
    chart = render("--set-json", f"networkPolicy.ingressFrom=[{json.dumps(named)}]")
    (policy,) = [item for item in chart if item["kind"] == "NetworkPolicy"]
    (pod,) = [item for item in chart if item["kind"] == "Pod"]
    (ingress,) = policy["spec"]["ingress"]
    first, second = ingress["from"]
    assert first == named
    assert list(second) == ["podSelector"], "in the namespace of the release"
    assert second["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["containers"][0]["command"][-1].endswith(f":{ingress['ports'][0]['port']}")
    (unnamed,) = [item for item in render() if item["kind"] == "NetworkPolicy"]
    assert "from" not in unnamed["spec"]["ingress"][0], "anyone is let in"
