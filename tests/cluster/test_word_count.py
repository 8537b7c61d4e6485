# SPDX-License-Identifier: Apache-2.0
"""An app from `kubectl apply` to `kubectl delete`: pods of its own, exact results, and nothing left of it."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from confluent_kafka import Producer

from cluster.app import App
from cluster.install import NAME as OPERATOR
from cluster.pods import pod, script
from cluster.word_count import LINES, WordCount
from lib.verify import committed
from lib.wait import until
from streamapp.kafka.admin import Admin
from streamapp_operator.render.pods import BLOCK_PORT, LIVE_PORT, RPC_PORT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

HEALTH_PORT = 8080
"""The port of the operator's probes, as the chart has it."""
HELD_UP_MS = 8000
"""Longer than a stop on somebody's own machine waits for an epoch, shorter than a pod's may take."""
TOKENS = "grep /run/secrets/kubernetes.io/serviceaccount /proc/mounts || true"
UNKNOWN_STRANGER = "java.lang.IllegalArgumentException: Unknown challenge message."
"""Spark's message to a client that does not begin with its own encrypted handshake."""
WRITE = "for folder in / /opt /tmp; do touch $folder/x 2>&1 && echo written to $folder; done"
WRITTEN = (
    "touch: cannot touch '//x': Read-only file system\n"
    "touch: cannot touch '/opt/x': Read-only file system\n"
    "written to /tmp\n"
)
OPEN = ("/healthz", "/readyz", "/metrics")
MAPPED = "grep -h classes.jsa /proc/[0-9]*/maps || true"


def test_apply_count_and_delete(words: WordCount) -> None:
    words.apply(yaml.safe_dump(words.manifest))
    words.say(*LINES)
    words.await_ready()
    words.await_counts(LINES)
    words.say(*LINES)
    words.await_counts(2 * LINES)
    answer = words.ask("word-counts", "be")
    assert (json.loads(answer.stdout), answer.stderr) == ({"word": "be", "count": 2 * 3}, "")
    assert len(words.ask("word-counts").stdout.splitlines()) == 9
    assert words.ask().stdout == "word-counts: word -> count\n"
    answer = words.ask("word-count")
    assert answer.returncode == 1
    assert answer.stderr == "error: there is no store 'word-count'; there are: word-counts\n"
    for each in (words.driver()["metadata"]["name"], *words.executors()):
        mapped = words.namespace.kubectl("exec", each, "--", "sh", "-c", MAPPED)
        assert mapped, f"Java in {each} does without the archive of Spark's classes"
    require_closed(words)
    require_nothing_else_listens(words)
    if words.namespace.cluster.restore_iptables is not None:
        require_policies(words)
    until(lambda: words.status().get("lag", {}).get("total") == 0, 60, "the status says that nothing is behind")
    head, line = words.namespace.kubectl("get", "sapp").splitlines()
    assert head.split() == ["NAME", "PHASE", "READY", "REPLICAS", "DESIRED", "LAG", "RESTORE", "AGE"]
    assert line.split()[:6] == [words.name, "Running", "True", "1", "1", "0"]
    assert {f"statefulset.apps/{words.name}-driver", f"pod/{words.name}-driver-0"} <= set(words.objects())
    log = words.namespace.kubectl("logs", f"{words.name}-driver-0")
    assert " ERROR " not in log, log

    # R10. With its input it has lost its work, and the app can be deleted all the same.
    Admin(words.kafka).delete([words.lines])
    words.await_degraded(words.lines)
    words.namespace.kubectl("delete", f"sapp/{words.name}", "--timeout=60s")
    words.await_gone()


def test_an_app_that_is_made_anew_adopts_its_state(words: WordCount) -> None:
    """Without `adopt` it is refused, also while the former app is still there."""
    words.begin()
    words.say(*LINES)
    words.await_ready()
    words.await_counts(LINES)
    namespace = words.namespace
    owner = f"{namespace.name}/{words.name}/{namespace.get(f'sapp/{words.name}')['metadata']['uid']}"

    twin = yaml.safe_load(yaml.safe_dump(words.manifest))
    twin["metadata"] = {"name": f"{words.name}-twin", "annotations": {"streamapp.dev/adopt": owner}}
    twin["spec"]["applicationId"] = words.name
    other = App(namespace, f"{words.name}-twin")
    other.apply(yaml.safe_dump(twin))
    refusal = f"the StreamApp '{words.name}' in namespace '{namespace.name}' is still there"
    other.await_condition("TopologyValid", "Invalid", refusal)
    assert other.objects() == []
    namespace.kubectl("delete", f"sapp/{other.name}", f"sapp/{words.name}", "--timeout=60s")
    words.await_gone()

    words.begin()
    words.await_degraded(f"belongs to '{owner}'", 120)
    words.say(*LINES)
    assert words.streamapp("adopt", owner).returncode == 0
    words.await_ready()
    words.await_counts(2 * LINES)


def require_closed(words: WordCount) -> None:
    """An executor has no token of the cluster's, and its driver has one; neither can change the files of its image. A
    driver accepts only encrypted connections with the app's secret, and shows a client without the app's token only
    that it is well and how much it does."""
    driver, (executor, *_) = words.driver(), words.executors()
    for each, mounted in ((driver["metadata"]["name"], True), (executor, False)):
        assert bool(words.namespace.kubectl("exec", each, "--", "sh", "-c", TOKENS)) is mounted
        assert words.namespace.kubectl("exec", each, "--", "sh", "-c", WRITE) == WRITTEN
    place = driver["status"]["podIP"], str(RPC_PORT)
    said = words.namespace.kubectl("exec", executor, "--", *script("call_spark", *place))
    assert said.strip() == UNKNOWN_STRANGER
    knocked = words.namespace.kubectl("exec", f"{words.name}-driver-0", "--", *script("knock", place[0], "guess"))
    *answers, pages = knocked.splitlines()
    for path in OPEN:
        assert answers.count(f"GET {path} 200") == 2, answers
    closed = [answer for answer in answers if answer.split()[1] not in OPEN]
    assert len(closed) == 2 * 7
    assert {answer.split()[2] for answer in closed} == {"401"}, closed
    assert pages == "Spark's own pages: closed"
    assert len(words.executors()) == 1


def require_nothing_else_listens(words: WordCount) -> None:
    (executor,) = words.executors()
    for who, ports in (
        (f"{words.name}-driver-0", {LIVE_PORT, RPC_PORT, BLOCK_PORT}),
        (executor, {BLOCK_PORT}),
        (f"deployment/{OPERATOR}", {HEALTH_PORT}),
    ):
        said = words.namespace.kubectl("exec", who, "--", *script("listens")).splitlines()
        assert said == ["ports " + " ".join(map(str, sorted(ports))), "users 10001"], who


def require_policies(words: WordCount) -> None:
    """Each pod may talk to the peers that its policy allows. An address that is closed to one pod is open to another,
    so a server answers there."""
    namespace = words.namespace
    namespace.apply(pod("stranger", command=script("web")))
    namespace.await_ready("pod/stranger")
    (executor,) = words.executors()
    driver, stranger = f"{words.name}-driver-0", "stranger"
    at = {name: namespace.get(f"pod/{name}")["status"]["podIP"] for name in (driver, executor, stranger)}
    rpc, blocks, live = (f"{at[driver]}:{port}" for port in (RPC_PORT, BLOCK_PORT, LIVE_PORT))
    pieces, web = f"{at[executor]}:{BLOCK_PORT}", f"{at[stranger]}:8080"
    api = f"{namespace.cluster.get('service/kubernetes')['spec']['clusterIP']}:443"
    kafka = words.kafka.bootstrap_servers
    reached = {
        driver: ({pieces, kafka, api}, {web}),
        executor: ({rpc, blocks, kafka}, {live, web, api}),
        f"deployment/{OPERATOR}": ({live, kafka, api}, {rpc, blocks, pieces, web}),
        stranger: ({live, kafka, api, web}, {rpc, blocks, pieces}),
    }
    for who, (opened, closed) in reached.items():
        said = namespace.kubectl("exec", who, "--", *script("reach", *sorted(opened | closed))).splitlines()
        assert set(said) == {f"{place} open" for place in opened} | {f"{place} closed" for place in closed}, who


def test_a_wrong_manifest_stops_nothing_and_suspended_apps_go_on_where_they_were(words: WordCount) -> None:
    """An app that ends leaves an unfinished epoch behind."""
    hold_up(words, "driver", f"epoch.planned@2=pause:{HELD_UP_MS},epoch.planned@4=pause:{HELD_UP_MS}")
    hold_up(words, "executor", f"store.before-restore@3=pause:{HELD_UP_MS}")
    words.apply(yaml.safe_dump(words.manifest))
    words.say(*LINES)
    words.await_ready()
    driver = words.driver()["metadata"]["uid"]

    good = words.manifest["spec"]["topology"]
    bad = [good[0], {**good[1], "flatMap": {"word": "splitt(value, ' ')"}}, {**good[2], "groupBy": ["wort"]}, good[3]]
    words.patch(topology=bad)
    words._until(lambda: words.condition("TopologyValid").get("status") == "False", 30, "TopologyValid is False")
    said = words.condition("TopologyValid")["message"]
    assert "node 'words'" in said and "did you mean `split`?" in said, said  # noqa: PT018
    assert "node 'counts'" in said and "wort" in said, said  # noqa: PT018
    assert words.condition("Ready")["reason"] == "UpdateRefused"
    assert words.status()["phase"] == "Running"
    words.say("still here")
    words.await_counts([*LINES, "still here"])
    words.patch(topology=good)
    words._until(lambda: words.condition("TopologyValid").get("status") == "True", 30, "TopologyValid is True")
    assert words.driver()["metadata"]["uid"] == driver

    words.say("under way")
    await_held_up(words)
    words.patch(suspend=True)
    words.await_phase("Suspended")
    assert not [name for name in words.objects() if name.startswith("pod/")]
    words.await_counts([*LINES, "still here", "under way"], 10)
    files = [(message.key() or b"").decode() for message in committed(words.kafka, f"{words.name}-metadata")]
    assert [path for path in files if path.endswith("/commits/2")], files
    words.say("not yet")
    words.patch(suspend=False)
    words._until(lambda: words.status().get("restore"), 120, "the status says that stores are restored")
    status = words.status()
    assert (status["phase"], status["restore"].keys()) == ("Restoring", {"progress", "done", "total", "etaSeconds"})
    words.await_ready(other_than=driver)
    words.await_counts([*LINES, "still here", "under way", "not yet"])
    assert "restore" not in words.status()

    # R10. The epoch has been cut, and its records are gone before it reads them. It has more than the driver would have
    # fetched by then.
    say_at_once(words, 3000 * ["gone"])
    await_held_up(words)
    admin = Admin(words.kafka)
    admin.purge({(words.lines, partition): end for partition, end in admin.end_offsets(words.lines).items()})
    words.await_degraded(f"are gone in topic {words.lines}, partition ")
    assert re.search(r"partition \d+, (among offsets|from offset) \d+ ", words.status()["lastError"]["message"])


def say_at_once(words: WordCount, lines: list[str]) -> None:
    """In a transaction and one partition: one epoch reads all of them."""
    producer = Producer({**words.kafka.for_librdkafka(), "transactional.id": f"speaker-of-{words.name}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for line in lines:
        producer.produce(words.lines, line.encode(), partition=0)
    producer.commit_transaction(30)


def hold_up(words: WordCount, component: str, failpoints: str) -> None:
    env = [{"name": "STREAMAPP_FAILPOINTS", "value": failpoints}]
    words.manifest["spec"][component] = {"podTemplate": {"spec": {"containers": [{"name": component, "env": env}]}}}


def await_held_up(words: WordCount) -> None:
    """Waits until the driver has cut an epoch that it does not begin with yet."""
    words._until(lambda: "FAILPOINT epoch.planned" in words.said_by_drivers(), 60, "an epoch is held up")
