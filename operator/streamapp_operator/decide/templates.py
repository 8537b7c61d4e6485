# SPDX-License-Identifier: Apache-2.0
"""The pod templates of driver and executors among an app's wanted objects."""

from __future__ import annotations

from collections.abc import Mapping

from streamapp_operator.render.meta import TEMPLATE_ANNOTATION, Object


def driver_template(objects: tuple[Object, ...]) -> str | None:
    """The fingerprint of the template that the driver's pod is to be made from; None where no StatefulSet makes it."""
    found = driver_annotations(objects)
    return found[TEMPLATE_ANNOTATION] if found is not None else None


def driver_annotations(objects: tuple[Object, ...]) -> Mapping[str, str] | None:
    """The annotations of the pod that a StatefulSet is to make; None where there is none."""
    wanted = next((item for item in objects if item["kind"] == "StatefulSet"), None)
    return wanted["spec"]["template"]["metadata"]["annotations"] if wanted is not None else None


def executor_template(objects: tuple[Object, ...]) -> str:
    """The fingerprint of the template that executors are to be made from."""
    config = next(item for item in objects if item["kind"] == "ConfigMap")
    return str(config["metadata"]["annotations"][TEMPLATE_ANNOTATION])
