# SPDX-License-Identifier: Apache-2.0
"""Anybody who makes a pod writes its labels and its owner: the operator checks the name too, which only the StatefulSet
gives."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import yaml

from lib.operator import WORD_COUNT
from streamapp_operator.driver.client import Drivers
from streamapp_operator.observe.lag import Lags
from streamapp_operator.observe.observer import observe
from streamapp_operator.render.meta import Object, labels

SET = "word-count-driver"


def owned(kind: str, name: str, owner: str, uid: str, **more: Any) -> Object:
    reference = {"kind": owner, "name": "x", "uid": uid, "controller": True}
    metadata = {"namespace": "shop", "labels": labels("word-count", "driver"), "ownerReferences": [reference]}
    return {"kind": kind, "metadata": {**metadata, "name": name, "uid": f"uid-{name}", "resourceVersion": "1", **more}}


def pod(name: str, second: int) -> Object:
    return owned("Pod", name, "StatefulSet", f"uid-{SET}", creationTimestamp=f"2024-01-01T00:00:0{second}Z")


class Cluster:
    """An app with its StatefulSet, and these pods."""

    def __init__(self, *pods: Object) -> None:
        self._app = yaml.safe_load(WORD_COUNT)
        self._app["metadata"] |= {"namespace": "shop", "uid": "1"}
        self._listed = {"StatefulSet": [owned("StatefulSet", SET, "StreamApp", "1")], "Pod": list(pods)}

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._app if kind == "StreamApp" else None

    def lists(self, kinds: Collection[str], namespace: str, selector: str = "") -> dict[str, list[Object]]:
        return {kind: self._listed.get(kind, []) for kind in kinds}


def test_a_pod_with_a_forged_owner_does_not_take_the_drivers_place() -> None:
    seen = observe(Cluster(pod(f"{SET}-0", 1), pod(f"{SET}-x", 2)), Lags(), Drivers(), "shop", "word-count")
    assert seen is not None
    assert seen.driver is not None
    assert seen.driver["metadata"]["name"] == f"{SET}-0"


def test_a_pod_with_a_forged_owner_is_not_asked() -> None:
    seen = observe(Cluster(pod(f"{SET}-x", 2)), Lags(), Drivers(), "shop", "word-count")
    assert seen is not None
    assert seen.silence == "its pod is not of this app's StatefulSet or Job"
