# SPDX-License-Identifier: Apache-2.0
"""`streamapp produce` and `consume` as unix pipes, against a real broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO

import pytest
from confluent_kafka import Producer

from lib.broker import unique_name, write
from lib.wait import until
from streamapp.kafka.admin import Admin
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.ports import free_ports

pytestmark = pytest.mark.kafka
MakeTopic = Callable[..., str]


class Shell:
    """Runs `streamapp` in a process of its own, on the shared broker."""

    def __init__(self, servers: str) -> None:
        self._servers = servers

    def start(self, *arguments: str, stdin: int | IO[bytes] = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "streamapp.cli.main",
            *arguments,
            "--bootstrap-servers",
            self._servers,
        ]
        return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *arguments: str, stdin: bytes = b"", expect: int = 0) -> tuple[bytes, str]:
        process = self.start(*arguments, stdin=subprocess.PIPE)
        out, err = process.communicate(stdin, timeout=60)
        assert process.returncode == expect, err.decode()
        return out, err.decode()

    def consume(self, *arguments: str) -> list[bytes]:
        return self.run("consume", *arguments, "--from-beginning")[0].splitlines()


@pytest.fixture
def shell(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.bootstrap_servers)


def test_lines_there_and_back(shell: Shell, topic: MakeTopic) -> None:
    name = topic()
    out, err = shell.run("produce", name, stdin="hello\n\nwörld\nno end".encode())
    assert (out, err) == (b"", "")
    assert shell.consume(name, "--max", "4") == [b"hello", b"", "wörld".encode(), b"no end"]


def test_json_there_and_back(shell: Shell, topic: MakeTopic) -> None:
    name = topic()
    rows: list[dict[str, object]] = [
        {"key": "a", "value": {"n": 1}, "timestamp": "2024-01-01T00:00:00.000Z", "headers": {"h": "x"}},
        {"key": "a", "value": None, "timestamp": "2024-01-01T00:00:00.001Z"},
        {"key": None, "valueBase64": "/w==", "timestamp": "2024-01-01T00:00:00.002Z"},
    ]
    shell.run("produce", name, "--json", stdin="\n".join(json.dumps(row) for row in rows).encode())
    found = [json.loads(line) for line in shell.consume(name, "--json", "--max", "3")]
    assert found == [{**row, "partition": 0, "offset": offset} for offset, row in enumerate(rows)]


def test_what_is_consumed_can_be_produced(shell: Shell, topic: MakeTopic) -> None:
    first, second = topic(partitions=3), topic(partitions=3)
    write(KafkaConfig(shell._servers), first, *((f"k{number}", str(number)) for number in range(100)))
    lines = shell.consume(first, "--json", "--max", "100")
    shell.run("produce", second, "--json", stdin=b"\n".join(lines))
    assert sorted(shell.consume(second, "--json", "--max", "100")) == sorted(lines)


def test_without_from_beginning_only_what_comes_now(shell: Shell, kafka: KafkaConfig, topic: MakeTopic) -> None:
    name = topic()
    write(kafka, name, (None, "old"))
    process = shell.start("consume", name, "--max", "1")
    try:

        def written() -> bool:
            write(kafka, name, (None, "new"))
            return process.poll() is not None

        until(written, 30, "the consumer has seen a record written after it began", every=0.2)
        assert process.communicate()[0] == b"new\n"
    finally:
        process.kill()


def test_timeout_ends_after_silence(shell: Shell, kafka: KafkaConfig, topic: MakeTopic) -> None:
    name = topic()
    write(kafka, name, (None, "1"))
    started = time.monotonic()
    assert shell.consume(name, "--timeout", "1") == [b"1"]
    assert time.monotonic() - started < 15


def test_reads_committed_only(shell: Shell, kafka: KafkaConfig, topic: MakeTopic) -> None:
    name = topic()
    producer = Producer({**kafka.for_librdkafka(), "transactional.id": name})
    producer.init_transactions(30)
    for value, commits in (("committed", True), ("aborted", False), ("committed later", True)):
        producer.begin_transaction()
        producer.produce(name, value=value)
        producer.flush(30)
        producer.commit_transaction(30) if commits else producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(name, value="open")
    producer.flush(30)
    assert shell.consume(name, "--timeout", "2") == [b"committed", b"committed later"]
    producer.abort_transaction(30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_consume_cleanly(
    shell: Shell, kafka: KafkaConfig, topic: MakeTopic, number: signal.Signals
) -> None:
    name = topic()
    write(kafka, name, (None, "1"))
    process = shell.start("consume", name, "--from-beginning")
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_a_reader_that_leaves_ends_consume_quietly(shell: Shell, kafka: KafkaConfig, topic: MakeTopic) -> None:
    name = topic()
    write(kafka, name, *((None, "x" * 1000) for _ in range(1000)))
    process = shell.start("consume", name, "--from-beginning")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()  # as `head -1` does
    assert process.wait(30) == 0
    assert process.stderr.read() == b""


def test_ctrl_c_keeps_what_produce_has_read(shell: Shell, topic: MakeTopic) -> None:
    name = topic()
    process = shell.start("produce", name, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    assert shell.consume(name, "--max", "1") == [b"one"]  # at once, not only at the end of the input
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == (b"", b"")
    assert process.returncode == 0


def test_a_key_goes_where_java_would_send_it(shell: Shell, topic: MakeTopic) -> None:
    name = topic(partitions=8)
    shell.run("produce", name, "--json", stdin=b'{"key": "21"}\n{"key": "foobar"}\n')
    found = {row["key"]: row["partition"] for row in map(json.loads, shell.consume(name, "--json", "--max", "2"))}
    # Kafka's own test vectors for murmur2: "21" hashes to -973932308, "foobar" to -790332482.
    assert found == {key: (number & 0x7FFFFFFF) % 8 for key, number in (("21", -973932308), ("foobar", -790332482))}


def test_a_bad_line_is_named_and_those_before_it_are_written(shell: Shell, topic: MakeTopic) -> None:
    name = topic()
    _, err = shell.run("produce", name, "--json", stdin=b'{"value": "1"}\n{"vlaue": "2"}\n', expect=1)
    assert err.startswith("error: line 2: unknown field 'vlaue'")
    assert err.count("\n") == 1
    assert shell.consume(name, "--max", "1") == [b"1"]


def test_a_huge_record_is_refused_by_line(shell: Shell, topic: MakeTopic) -> None:
    name = topic(max_message_bytes="2000")
    _, err = shell.run("produce", name, stdin=b"small\n" + b"x" * 5000 + b"\nnever sent\n", expect=1)
    assert err.startswith(f"error: line 2: larger than topic '{name}' takes; send less, or raise")
    assert shell.consume(name, "--timeout", "2") == [b"small"]


def test_a_partition_that_is_not_there(shell: Shell, topic: MakeTopic) -> None:
    _, err = shell.run("produce", topic(), "--json", stdin=b'{"partition": 7}', expect=1)
    assert err.startswith("error: line 1: topic ")
    assert "does not take it" in err


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_a_missing_topic_is_named(shell: Shell, command: str) -> None:
    name = unique_name()
    _, err = shell.run(command, name, expect=1)
    assert err.startswith(f"error: topic '{name}' does not exist at ")
    assert "streamapp topics FILE --create" in err
    assert ("--create makes it" in err) == (command == "produce")


def test_silence_is_told(shell: Shell, topic: MakeTopic) -> None:
    name = topic()
    out, err = shell.run("consume", name, "--from-beginning", "--timeout", "1")
    assert (out, err) == (b"", "note: no record came in 1 s\n")
    shell.run("produce", name, stdin=b"one\n")
    out, err = shell.run("consume", name, "--from-beginning", "--timeout", "5")
    assert (out, err) == (b"one\n", "")


def test_produce_can_make_the_topic(shell: Shell, kafka: KafkaConfig) -> None:
    name = unique_name()
    shell.run("produce", name, "--create", "--partitions", "3", stdin=b"1\n")
    shell.run("produce", name, "--create", stdin=b"2\n")
    assert Admin(kafka).topics()[name].partitions == 3
    assert sorted(shell.consume(name, "--max", "2")) == [b"1", b"2"]


def test_added_partitions_are_read_too(shell: Shell, kafka: KafkaConfig, topic: MakeTopic) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    name = topic()
    write(kafka, name, (None, "0"))
    process = shell.start("consume", name, "--from-beginning", "--max", "2", "--json")
    try:
        assert process.stdout is not None
        process.stdout.readline()
        client = AdminClient({**kafka.for_librdkafka()})
        for future in client.create_partitions([NewPartitions(name, 2)]).values():
            future.result(30)
        until(lambda: Admin(kafka).topics()[name].partitions == 2, 30, "the partition is there")
        shell.run("produce", name, "--json", stdin=b'{"partition": 1, "value": "1"}')
        assert json.loads(process.stdout.readline())["partition"] == 1
        assert process.wait(30) == 0
    finally:
        process.kill()


def test_an_unreachable_broker_is_code_3_within_ten_seconds() -> None:
    started = time.monotonic()
    port = free_ports(1)[0]
    _, err = Shell(f"127.0.0.1:{port}").run("consume", "t", expect=3)
    assert time.monotonic() - started < 12
    assert err.startswith(f"error: no Kafka broker answers at 127.0.0.1:{port}: no connection")
    assert err.count("\n") == 1
