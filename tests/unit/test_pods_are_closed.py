# SPDX-License-Identifier: Apache-2.0
"""Spark in pods talks to nobody who does not know the secret, and shows nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamapp.errors import ManifestError
from streamapp.spark.kubernetes import DriverPod, Executors, pods_of
from streamapp.spark.session import FIXED_SETTINGS
from streamapp_operator.app import read_app
from streamapp_operator.render.executors import executor_template
from streamapp_operator.settings import Settings


def test_driver_and_executors_know_each_other_and_encrypt(tmp_path: Path) -> None:
    secret = tmp_path / "rpc"
    driver = DriverPod("app-driver-0", "shop", "10.0.0.7", 7078, 7079, 1024, secret)
    executors = Executors(
        image="streamapp/runtime:1", image_pull_policy="IfNotPresent", template=tmp_path / "executor.yaml",
        prefix="app", processors=1, cpu="500m", cpu_limit=None, heap_mib=1024, overhead_mib=512,
    )  # fmt: skip
    settings = pods_of(driver, executors, 2, 8).settings
    assert settings["spark.authenticate"] == "true"
    assert settings["spark.authenticate.secret.file"] == str(secret)
    assert settings["spark.network.crypto.enabled"] == "true"
    assert settings["spark.network.crypto.saslFallback"] == "false"


def test_there_is_no_user_interface() -> None:
    assert FIXED_SETTINGS["spark.ui.enabled"] == "false"


def test_no_executor_gets_a_token() -> None:
    def executors(**spec: Any) -> dict[str, Any]:
        topology = [
            {"name": "in", "stream": {"topic": "in", "value": "text"}},
            {"name": "out", "to": {"topic": "out", "value": "text"}},
        ]
        body = {
            "apiVersion": "streamapp.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "app", "uid": "1"},
            "spec": {"kafka": {"bootstrapServers": "kafka:9092"}, "topology": topology,
                     "executor": {"podTemplate": {"spec": spec}}},
        }  # fmt: skip
        return executor_template(read_app(body), Settings())

    assert executors(nodeSelector={"disk": "fast"})["spec"]["automountServiceAccountToken"] is False
    with pytest.raises(ManifestError, match="executors ask no API server, and get no token of it; leave it out"):
        executors(automountServiceAccountToken=True)
