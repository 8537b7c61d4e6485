# SPDX-License-Identifier: Apache-2.0
"""A name that people with fewer rights than the operator write names one object of their namespace, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client
from urllib3.util import parse_url

from lib.operator import WORD_COUNT
from streamapp.errors import ManifestError
from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.paths import path_of
from streamapp_operator.manifest.app import read_app
from streamapp_operator.manifest.kafka_login import named_secrets
from streamapp_operator.manifest.modules import named_config_map

HOSTILE = [
    *("../../billing/secrets/kafka", "a/b", "..", ".", "", "a?x=1", "a#b", "%2e%2e", "a%2Fb"),
    *("a\\..\\b", "a\r\nX: y", "ä"),
]
QUERIES = ("", "fieldManager=kubectl-streamapp", "fieldManager=streamapp-operator&force=true")
names = st.sampled_from(HOSTILE) | st.text(max_size=30)


class Recorder(client.ApiClient):
    """Keeps the URLs of its requests, and sends none."""

    urls: list[str]

    def call_api(self, method: str, url: str, *_: Any, **__: Any) -> Any:
        self.urls = [*getattr(self, "urls", []), url]
        raise client.ApiException(status=404, reason="asked")


def asked(name: str, namespace: str) -> list[str]:
    api = Recorder(client.Configuration(host="https://cluster"))
    kube = Kube(api)
    calls: tuple[Callable[[], object], ...] = (
        lambda: kube.get("Secret", namespace, name),
        lambda: kube.get("StreamApp", namespace, name),
        lambda: kube.merge("StreamApp", namespace, name, {}, "scale"),
        lambda: kube.delete("Pod", namespace, name, "uid"),
        lambda: kube.apply_status({"kind": "StreamApp", "metadata": {"namespace": namespace, "name": name}}),
    )
    for call in calls:
        try:
            call()
        except KubeError:
            continue
    return getattr(api, "urls", [])


@given(names, names)
def test_a_name_stays_one_segment_of_the_path(name: str, namespace: str) -> None:
    for url in asked(name, namespace):
        # As the HTTP library parses it, which also removes dots.
        path = parse_url(url).path
        assert path is not None
        assert urlsplit(url).query in QUERIES
        segments = path.split("/")
        at = segments.index("namespaces")
        assert unquote(segments[at + 1]) == namespace
        assert segments[at + 2] in ("secrets", "streamapps", "pods")
        assert unquote(segments[at + 3]) == name
        assert segments[at + 4 :] in ([], ["scale"], ["status"])


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_no_object_has_are_not_asked_for(name: str) -> None:
    with pytest.raises(KubeError) as refused:
        path_of("Secret", "shop", name)
    assert refused.value.code == 400
    assert asked(name, "shop") == asked("a", name) == []


def body(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORD_COUNT)
    found["metadata"] |= {"namespace": "shop", "uid": "u", "generation": 1}
    found["spec"] |= spec
    return found


PLACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "sasl": lambda name: {
        "kafka": {"bootstrapServers": "k:1", "sasl": {"mechanism": "PLAIN", "secretRef": {"name": name}}}
    },
    "tls": lambda name: {"kafka": {"bootstrapServers": "k:1", "tls": {"secretRef": {"name": name}}}},
    "code": lambda name: {"code": {"configMapRef": {"name": name}}},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", [*HOSTILE, "A", "a" * 254, "a..b", "-a", "a-"])
def test_a_manifest_names_objects_by_names_that_objects_have(place: str, name: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read_app(body(**PLACES[place](name)))
    assert "cannot be the name of an object in a cluster" in str(refused.value)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", [*HOSTILE, "A", 7, None])
def test_what_is_not_such_a_name_is_not_looked_up(place: str, name: Any) -> None:
    """The operator looks it up before it has checked the manifest."""
    found = body(**PLACES[place](name))
    assert named_secrets(found) == set()
    assert named_config_map(found) is None
