# SPDX-License-Identifier: Apache-2.0
"""The objects of a cluster, by the words of `kubectl get`, over one open connection: tests that wait ask again and
again, and a process for each question took a sixth of a small machine."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.resource import Resource, ResourceList

SECONDS = 120.0


class Objects:
    """The objects of the cluster that the kubeconfig leads to."""

    def __init__(self, kubeconfig: Path) -> None:
        self._known = tempfile.NamedTemporaryFile(suffix=".json")  # noqa: SIM115  which kinds there are, for this run alone
        self._client = DynamicClient(config.new_client_from_config(str(kubeconfig)), cache_file=self._known.name)
        self._kinds: dict[str, Resource] = {}

    def get(self, what: str, namespace: str, *, labels: str | None = None, fields: str | None = None) -> dict[str, Any]:
        """Returns an object (`pod/driver`) or, if `what` is a kind (`pods`), the list of all that have these labels and
        fields.

        Raises ApiException, with status 404 if there is no such object, and LookupError if there is no such kind.
        """
        word, _, name = what.partition("/")
        kind = self._kind(word)
        answer = self._client.get(
            kind,
            name=name or None,
            namespace=namespace,
            label_selector=labels,
            field_selector=fields,
            serialize=False,
            _request_timeout=SECONDS,
        )
        found: dict[str, Any] = json.loads(answer.data)
        for item in () if name else found["items"]:  # the items of a list do not have these themselves
            item |= {"apiVersion": kind.group_version, "kind": kind.kind}
        return found

    def has(self, what: str, namespace: str) -> bool:
        """Whether there is such an object (`pod/driver`)."""
        try:
            return bool(self.get(what, namespace))
        except ApiException as error:
            if error.status == 404:
                return False
            raise

    def _kind(self, word: str) -> Resource:
        """The kind by its plural, singular or short name."""
        if word not in self._kinds:
            self._client.resources.invalidate_cache()  # it may belong to a definition that came later
            for each in self._client.resources.search():
                if each.preferred and not isinstance(each, ResourceList):
                    for name in (each.name, each.singular_name, *(each.short_names or ())):
                        self._kinds.setdefault(name, each)
        if word not in self._kinds:
            raise LookupError(f"the cluster has no kind '{word}'")
        return self._kinds[word]
