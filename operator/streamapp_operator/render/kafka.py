# SPDX-License-Identifier: Apache-2.0
"""The files that pods mount to log in to Kafka: a settings file, and the parts of Secrets that it names. Driver and
executors have them at the same place."""

from __future__ import annotations

from itertools import groupby

from streamapp_operator.manifest.app import App
from streamapp_operator.manifest.kafka_login import DIRECTORY, PROPERTIES
from streamapp_operator.names import config_name
from streamapp_operator.render.meta import Object

CLIENT = "kafka-client.properties"
"""The key of the settings file in the app's ConfigMap."""
CLIENT_FILE = f"{DIRECTORY}/{PROPERTIES}"
_VOLUME = "kafka"


def kafka_volumes(app: App) -> list[Object]:
    login = app.kafka_login
    if login is None:
        return []
    settings = {"name": config_name(app.base), "items": [{"key": CLIENT, "path": PROPERTIES}]}
    secrets = [
        {"secret": {"name": name, "items": [{"key": file.key, "path": file.path} for file in files]}}
        for name, files in groupby(login.files, lambda file: file.secret)
    ]
    return [{"name": _VOLUME, "projected": {"sources": [{"configMap": settings}, *secrets]}}]


def kafka_mounts(app: App) -> list[Object]:
    return [] if app.kafka_login is None else [{"name": _VOLUME, "mountPath": DIRECTORY, "readOnly": True}]
