# SPDX-License-Identifier: Apache-2.0
"""Carries out a decision. All objects of a new version are tried before any is changed. After the first one that the
API server refuses, only the actions that do not depend on the version are done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.refusals import is_of_the_moment, is_refusal
from streamapp_operator.decide.actions import Action, Apply, Delete, RemoveFields, Scale, SetFinalizer, kind_of
from streamapp_operator.decide.decision import Decision
from streamapp_operator.decide.settled import accepted
from streamapp_operator.deletion.rights import Rights
from streamapp_operator.driver.client import scale
from streamapp_operator.memory import Notes, note
from streamapp_operator.observe.observation import Observation
from streamapp_operator.render import STARTERS
from streamapp_operator.render.meta import Object, is_orphan_of, is_owned_by

GENERATION_ANNOTATION = "streamapp.dev/generation"
"""Annotation on each object: the generation of the resource that it was last changed for."""
_OF_A_VERSION = ("ConfigMap", "ControllerRevision", *STARTERS)
"""Kinds of objects that belong to one version of an app."""
log = logging.getLogger("streamapp.operator")


def act(kube: Kube, seen: Observation, decision: Decision, notes: Notes, rights: Rights) -> str:
    """Carries out the decision, and notes the answers of the API server. Returns why something was refused; empty when
    nothing was."""
    if refusal := _refusal(lambda: _try(kube, seen, decision.doubtful)):
        return _do_each(kube, seen, filter(_suits_every_version, decision.actions), notes, rights) or refusal
    return _do_each(kube, seen, decision.actions, notes, rights)


def _try(kube: Kube, seen: Observation, doubtful: Iterable[Object]) -> None:
    """Asks the API server whether it would take each of these objects.

    Raises:
        KubeError: it would not take one.
    """
    for wanted in doubtful:
        if wanted["kind"] == "Pod":
            _try_executor(kube, wanted)
        else:
            if (wanted["kind"], wanted["metadata"]["name"]) not in seen.children:
                _require_free(kube, seen.body, wanted)
            kube.try_apply(wanted)


def _try_executor(kube: Kube, pod: Object) -> None:
    """
    Raises:
        KubeError: the API server would not take it.
    """
    try:
        kube.try_create(pod)
    except KubeError as error:
        if not is_of_the_moment(error):
            raise KubeError(error.code, f"the template of executors is refused: {error}") from None


def _suits_every_version(action: Action) -> bool:
    """Whether the action is also right for the version that runs on because the next one is refused."""
    if isinstance(action, Apply):
        return action.is_new and action.wanted["kind"] not in _OF_A_VERSION
    return isinstance(action, SetFinalizer) or (isinstance(action, Delete) and kind_of(action) == "Pod")


def _do_each(kube: Kube, seen: Observation, actions: Iterable[Action], notes: Notes, rights: Rights) -> str:
    """Does the actions one after the other; after the first that is refused, only those that do not depend on the
    version. Returns why it was refused; empty when none was."""
    refusal = ""
    for action in actions:
        if refusal and not _suits_every_version(action):
            continue
        log.info("%s/%s: %s", seen.body["metadata"]["namespace"], seen.body["metadata"]["name"], action.why)
        refused = _refusal(partial(_do, kube, seen, action, notes, rights))
        refusal = refusal or refused
    return refusal


def _refusal(act: Callable[[], None]) -> str:
    """Runs `act`. Returns why the API server has refused it; empty when it has not.

    Raises:
        KubeError: it has not answered, or has trouble of its own.
    """
    try:
        act()
    except KubeError as error:
        if not is_refusal(error):
            raise
        return str(error)
    return ""


def _do(kube: Kube, seen: Observation, action: Action, notes: Notes, rights: Rights) -> None:
    body = seen.body
    if isinstance(action, SetFinalizer):
        rights.set_finalizer(kube, body, action.on)
    elif isinstance(action, Scale):
        kube.may_write()
        if problem := scale(action.driver, seen.token, action.replicas):
            log.warning("%s/%s: %s", body["metadata"]["namespace"], body["metadata"]["name"], problem)
    elif isinstance(action, Apply):
        if action.is_new:
            _require_free(kube, body, action.wanted)
        wanted = action.wanted
        metadata = wanted["metadata"]
        mark = {GENERATION_ANNOTATION: str(body["metadata"]["generation"])}
        annotations = {**metadata["annotations"], **mark}
        made = kube.apply({**wanted, "metadata": {**metadata, "annotations": annotations}})
        note(notes, (wanted["kind"], metadata["name"]), accepted(wanted, made))
    elif isinstance(action, RemoveFields):
        kube.remove_fields(action.found, action.paths)
    else:
        found = action.found["metadata"]
        kube.delete(action.found["kind"], found["namespace"], found["name"], found["uid"], action.grace)


def _require_free(kube: Kube, body: Object, wanted: Object) -> None:
    """Checks that no object of somebody else has the name. An object of the app that nobody owns any more is taken
    over."""
    kind, namespace, name = wanted["kind"], wanted["metadata"]["namespace"], wanted["metadata"]["name"]
    found, app = kube.get(kind, namespace, name), body["metadata"]
    if found is not None and not is_owned_by(found, app["uid"]) and not is_orphan_of(found, app["name"]):
        raise KubeError(
            422, f"there is already a {kind} '{name}' that does not belong to this app; delete it, or rename the app"
        )
