# SPDX-License-Identifier: Apache-2.0
"""Code of an app in a ConfigMap, on a real API server: it is part of the version, and comes back with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lib.operator import Apps, KubeError, Object
from lib.rollouts import STUCK, WELL, prove, renew, versions

pytestmark = pytest.mark.cluster

TOPOLOGY = [
    {"name": "lines", "stream": {"topic": "text-lines", "value": "text"}},
    {"name": "said", "python": {"function": "speech:loud", "schema": "said STRING"}},
    {"name": "out", "to": {"topic": "said"}},
]
LOUD = "def loud(row):\n    return {'said': row['value'].upper()}\n"
LOUDER = LOUD.replace("upper()", "upper() + '!'")
REF = {"configMapRef": {"name": "speech"}}


def put(apps: Apps, data: Any) -> None:
    """Makes the ConfigMap, or gives it other contents."""
    if apps.kube.get("ConfigMap", apps.namespace, "speech") is None:
        metadata = {"name": "speech", "namespace": apps.namespace}
        apps.kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    else:
        apps.edit("ConfigMap", "speech", lambda found: found.update(data=data))


def shipped(apps: Apps) -> dict[str, str]:
    """The code in the plan that the driver gets."""
    plan = json.loads(apps.get("ConfigMap", "word-count-config")["data"]["plan.json"])
    return dict(plan["code"])


def test_what_is_wrong_with_the_code_is_told_until_it_is_right(apps: Apps) -> None:
    apps.create(topology=TOPOLOGY, code=REF)

    def told() -> str:
        apps.settle()
        valid = apps.condition("TopologyValid")
        assert valid["status"] == "False"
        return str(valid["message"])

    assert told() == (
        f"`code.configMapRef`: there is no ConfigMap 'speech' in namespace '{apps.namespace}'; make it: "
        f"kubectl -n {apps.namespace} create configmap speech --from-file=scoring.py"
    )
    put(apps, {})
    assert "ConfigMap 'speech' has no modules in its data; make it anew" in told()
    put(apps, {"speech.py": "def laud(row): return row", "os.py": "", "broken.py": "def ("})
    message = told()
    for words in (
        "module 'speech' has no 'loud' (in \"speech:loud\"); did you mean `laud`?",
        "'os.py' would take the place of Python's own `os`; give it another name",
        "broken.py, line 1: invalid syntax",
    ):
        assert words in message
    assert apps.kube.get("StatefulSet", apps.namespace, "word-count-driver") is None
    apps.edit("ConfigMap", "speech", lambda found: found.update(data={}, binaryData={"speech.py": "//4="}))
    assert "'speech.py' of ConfigMap 'speech' is not UTF-8 text" in told()
    readme = {"README.md": "# Speech"}
    apps.edit("ConfigMap", "speech", lambda found: found.update(data={"speech.py": LOUD, **readme}, binaryData=None))
    apps.settle()
    assert apps.condition("TopologyValid")["status"] == "True"
    assert shipped(apps) == {"speech.py": LOUD}


def test_a_path_is_of_no_use_on_a_cluster(apps: Apps) -> None:
    words = (
        '`path` is for a laptop (in "speech"); on a cluster, add configMapRef: {name: CONFIGMAP}, or write the modules '
        "into files"
    )
    with pytest.raises(KubeError, match=re.escape(words)):
        apps.create(topology=TOPOLOGY, code={"path": "speech"})
    put(apps, {"speech.py": LOUD})
    apps.create(topology=TOPOLOGY, code={"path": "speech", **REF})
    apps.settle()
    assert shipped(apps) == {"speech.py": LOUD}


def test_changed_code_is_a_version_that_proves_itself_or_is_taken_back(apps: Apps, tmp_path: Path) -> None:
    put(apps, {"speech.py": LOUD})
    apps.create(topology=TOPOLOGY, code=REF, upgrade={"progressDeadline": "60s"})
    apps.settle()
    well, stuck = (_of(status) for status in (WELL, STUCK))
    first = prove(apps, tmp_path, well)

    driver = apps.await_driver()
    put(apps, {"speech.py": LOUDER})
    apps.settle()
    plan = apps.status()["plan"]
    assert (plan["class"], plan["restarts"], plan["outcome"]) == ("RestartQuery", "Driver", "Applied")
    assert [change["change"] for change in plan["changes"]] == ["code.files.speech.py: the text changes"]
    assert shipped(apps) == {"speech.py": LOUDER}
    driver = renew(apps, driver)
    with apps.driver_says(stuck, tmp_path):
        apps.pass_time(80)
    degraded = apps.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "RolledBack")
    assert degraded["message"].startswith("the new code was taken back: within 60 s sub-topology 'lines' committed no")
    assert "The code before it runs. Change the ConfigMap" in degraded["message"]
    assert shipped(apps) == {"speech.py": LOUD}, "the ConfigMap has the new code still"
    assert apps.status()["version"] == first

    put(apps, {"speech.py": LOUDER, "unused.py": "x = 1"})
    driver = renew(apps, driver)
    apps.settle()
    driver = renew(apps, driver)
    second = prove(apps, tmp_path, well)
    assert second != first
    assert set(versions(apps)) == {second}
    apps.settle()
    with apps.counting() as writes:
        apps.reconcile()
    assert writes == []


def _of(status: Object) -> Object:
    (word_counts,) = status["subTopologies"].values()
    return {**status, "subTopologies": {"lines": word_counts}}
