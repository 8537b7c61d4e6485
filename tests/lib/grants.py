# SPDX-License-Identifier: Apache-2.0
"""Rights: those that Roles grant, those that the manual gives reasons for, and those that are really used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, order=True)
class Grant:
    """One verb on one kind of resource; a subresource is `pods/log`, the core group is empty."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}.{self.group}" if self.group else f"{self.verb} {self.resource}"


def granted_by(rules: Iterable[Object]) -> Iterator[Grant]:
    """The grants of the rules of a Role or ClusterRole, whatever the resource's name."""
    for rule in rules:
        assert not rule.get("nonResourceURLs"), rule
        for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"]):
            yield Grant(group, resource, verb)


def roles_of(objects: Iterable[Object]) -> list[Object]:
    return [item for item in objects if item["kind"] in ("Role", "ClusterRole")]


def argued_in(manual: str) -> dict[Grant, str]:
    """The table of docs/security.md: rows of resources, verbs and the reason. A resource is written as in kubectl, with
    its group behind it.

    >>> [str(grant) for grant in argued_in("| `pods` `statefulsets.apps` | `get` | why |")]
    ['get pods', 'get statefulsets.apps']
    """
    found: dict[Grant, str] = {}
    for row in re.finditer(r"^\| (`[^|]*`) \| (`[^|]*`) \| ([^|]+) \|$", manual, re.MULTILINE):
        resources, verbs, reason = row.groups()
        for path, verb in product(re.findall(r"`([^`]+)`", resources), re.findall(r"`([^`]+)`", verbs)):
            resource, _, group = path.partition(".")
            grant = Grant(group, resource, verb)
            assert grant not in found, f"the table has {grant} twice"
            found[grant] = reason.strip()
    return found


def asked_for(audit_log: Path, user: str) -> tuple[set[Grant], list[str]]:
    """The rights that a user's requests to the API server have used, and the refusals, in words."""
    asked, refused = set(), []
    for line in audit_log.read_text().splitlines():
        event = json.loads(line)
        about = event.get("objectRef")
        if event["user"]["username"] != user or about is None or "resource" not in about:
            continue
        resource = about["resource"] + (f"/{about['subresource']}" if "subresource" in about else "")
        grant = Grant(about.get("apiGroup", ""), resource, event["verb"])
        code = event.get("responseStatus", {}).get("code")
        if code == 403:
            refused.append(f"{grant} {about.get('namespace', '')}/{about.get('name', '')}")
        asked.add(grant)
        if event["verb"] == "patch" and code == 201:  # server-side apply has made it, which needs this right as well
            asked.add(Grant(grant.group, grant.resource, "create"))
    return asked, refused
