# SPDX-License-Identifier: Apache-2.0
"""The embedded broker's life: it comes up, keeps its data, and never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lib.broker import bounce, new_topic, paused, read, write
from lib.wait import until
from streamapp.errors import RunError
from streamapp.kafka.admin import Admin
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.ports import free_ports

pytestmark = pytest.mark.kafka

PARENT = """
import sys, time
from pathlib import Path
from streamapp.kafka.broker import EmbeddedBroker
broker = EmbeddedBroker(Path(sys.argv[1])).start()
print(broker.pid, broker.bootstrap_servers, flush=True)
time.sleep(600)
"""


def parent_with_broker(folder: Path) -> tuple[subprocess.Popen[str], int, str]:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, servers = parent.stdout.readline().split()
    return parent, int(pid), servers


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_is_up_within_seconds_in_a_new_folder(tmp_path: Path) -> None:
    started = time.monotonic()
    with EmbeddedBroker(tmp_path) as broker:
        took = time.monotonic() - started
        assert Admin(KafkaConfig(broker.bootstrap_servers)).topics() == {}
    assert took < 15  # 2 s on an idle laptop; here other tests may be running


@pytest.mark.parametrize("hard", [False, True], ids=["SIGTERM", "kill-9"])
def test_data_and_port_are_found_again(tmp_path: Path, hard: bool) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        kafka = KafkaConfig(broker.bootstrap_servers)
        topic = new_topic(kafka)
        write(kafka, topic, ("a", "1"), ("b", "2"))
        bounce(broker, hard)
        assert broker.bootstrap_servers == kafka.bootstrap_servers
        assert read(kafka, topic, 2) == [("a", "1"), ("b", "2")]


def test_is_reached_by_the_name_it_gives_to_clients(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, host="0.0.0.0", advertised_host="localhost") as broker:
        port = broker.node.port
        assert broker.bootstrap_servers == f"localhost:{port}"
        # An address other than the one that it advertises: the client is sent on from here to there.
        kafka = KafkaConfig(f"127.0.0.2:{port}")
        topic = new_topic(kafka)
        write(kafka, topic, ("a", "1"))
        assert read(kafka, topic, 1) == [("a", "1")]


def test_leaves_with_a_parent_killed_hard_and_is_found_by_the_next(tmp_path: Path) -> None:
    parent, pid, servers = parent_with_broker(tmp_path)
    kafka = KafkaConfig(servers)
    topic = new_topic(kafka)
    write(kafka, topic, ("a", "1"))
    parent.kill()
    parent.wait()
    # At once, while the old one is still stopping.
    with EmbeddedBroker(tmp_path) as broker:
        assert gone(pid)
        assert broker.bootstrap_servers == servers
        assert read(kafka, topic, 1) == [("a", "1")]


def test_leaves_with_its_parent_even_while_starting(tmp_path: Path) -> None:
    code = PARENT.replace(".start()", "; broker.launch()").replace("broker.bootstrap_servers", "0")
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline().split()[0])
    parent.kill()
    parent.wait()
    until(lambda: gone(pid), 30, "the broker of a killed parent is gone")


def test_a_ctrl_c_for_the_app_does_not_reach_the_broker(tmp_path: Path) -> None:
    parent, pid, _ = parent_with_broker(tmp_path)
    assert os.getpgid(pid) != os.getpgid(parent.pid)
    parent.send_signal(signal.SIGTERM)
    parent.wait()
    until(lambda: gone(pid), 30, "the broker of a terminated parent is gone")


def test_a_folder_in_use_is_refused_and_the_user_of_it_unharmed(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        with pytest.raises(RunError, match=rf"{tmp_path}.* in use .*process {broker.pid}"):
            EmbeddedBroker(tmp_path).start()
        bounce(broker)


def test_a_taken_port_is_named(tmp_path: Path, broker: EmbeddedBroker) -> None:
    with pytest.raises(RunError, match=rf"{broker.node.port}.* taken .*--port"):
        EmbeddedBroker(tmp_path, port=broker.node.port).start()


def test_moves_when_its_old_port_has_been_taken(tmp_path: Path, broker: EmbeddedBroker) -> None:
    (tmp_path / "node.json").write_text(
        '{"cluster_id": "4L6g3nShT-eMCtK--X86sw", "node_id": 1, '
        f'"port": {broker.node.port}, "controller_port": {broker.node.controller_port}}}'
    )
    with EmbeddedBroker(tmp_path) as second:
        assert second.node.port != broker.node.port


def test_listens_on_this_machine_only(broker: EmbeddedBroker) -> None:
    addresses = {
        connection.laddr.ip
        for connection in psutil.Process(broker.pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_a_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RunError, match=r"JAVA_HOME is .* no bin/java; set it to a JDK 17"):
        EmbeddedBroker(tmp_path).start()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match="Java is missing"):
        EmbeddedBroker(tmp_path).start()


def test_a_setting_that_kafka_refuses_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"num\.io\.threads"):
        EmbeddedBroker(tmp_path, properties={"num.io.threads": "many"}).start()


def test_an_unreachable_broker_is_told_within_ten_seconds() -> None:
    port = free_ports(1)[0]
    started = time.monotonic()
    with pytest.raises(RunError, match=rf"no Kafka broker answers at 127.0.0.1:{port}"):
        Admin(KafkaConfig(f"127.0.0.1:{port}")).topics()
    assert time.monotonic() - started < 10


def test_a_broker_that_hangs_is_told_within_ten_seconds(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker, paused(broker):
        started = time.monotonic()
        with pytest.raises(RunError, match="no Kafka broker answers"):
            Admin(KafkaConfig(broker.bootstrap_servers)).topics()
        assert time.monotonic() - started < 10
