# SPDX-License-Identifier: Apache-2.0
"""The embedded broker: one real Kafka broker and controller in a Java process of its own.

    with EmbeddedBroker(Path(".streamapp/word-count/broker")) as broker:
        print(broker.bootstrap_servers)

It lives as long as its parent: the parent holds the write end of the broker's stdin, and the broker stops
when that closes. The operating system closes it even for a parent killed with -9. The broker has a session
of its own, so that a Ctrl-C meant for the app does not stop the broker under it.

The data folder holds:

    node.json            the broker's identity: cluster id, node id, ports. Written once; the ports are kept
                         while free
    server.properties    written at every start
    data/, data.lock     Kafka's own files; the lock is held by the broker process
    broker.log, .err     the broker's log; the JVM's own output
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import IO

from streamapp.errors import RunError
from streamapp.kafka.ports import LOCALHOST, free_ports, is_free

JARS = Path(__file__).resolve().parent.parent / "jars"
MAIN_CLASS = "dev.streamapp.broker.EmbeddedBroker"
DEFAULT_HEAP = "512m"
START_SECONDS = 60.0
STOP_SECONDS = 20.0
PREDECESSOR_SECONDS = 20.0
PORT_ATTEMPTS = 3


@dataclass(frozen=True)
class Node:
    """The identity of a broker. `voters` maps the node id of every controller of its cluster to its port."""

    cluster_id: str
    node_id: int
    port: int
    controller_port: int
    voters: Mapping[int, int] = field(default_factory=dict)

    @property
    def all_voters(self) -> Mapping[int, int]:
        return self.voters or {self.node_id: self.controller_port}


class EmbeddedBroker:
    """A broker on `data_dir`. Start, stop and start again as often as you like; the data stays.

    `port` 0 keeps the port of the last start where it is still free. `host` is the address it listens on:
    0.0.0.0 for all of this machine's; `advertised_host` is its address for clients, and must be given where
    `host` is no address that they could dial. It uses plain text and no authentication, so beyond localhost
    use it only in your own network. `properties` are Kafka's own broker settings and win over ours. `node`
    makes it one of several (see tests/lib/broker.py); without it, it is a cluster of one.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        heap: str = DEFAULT_HEAP,
        properties: Mapping[str, str] | None = None,
        node: Node | None = None,
        host: str = LOCALHOST,
        advertised_host: str | None = None,
    ) -> None:
        self._dir = data_dir.absolute()
        self._host = host
        self._advertised_host = advertised_host or host
        self._wanted_port = port
        self._heap = heap
        self._properties = dict(properties or {})
        self._fixed_node = node
        self._node: Node | None = None
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    # --- life -----------------------------------------------------------------------------------------------

    def start(self, timeout: float = START_SECONDS, meanwhile: Callable[[], object] = lambda: None) -> EmbeddedBroker:
        """Start and wait until clients can connect. Raises RunError with the reason.

        `meanwhile` is called while it starts, and may be called again.
        """
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            self.launch()
            meanwhile()
            try:
                self.await_ready(timeout)
                return self
            except PortTaken as error:
                # Another process took the port between our look and the broker's bind; try another port.
                if attempts_left == 0 or self._wanted_port or self._fixed_node:
                    raise RunError(str(error)) from None
        raise AssertionError("unreachable")

    def launch(self) -> None:
        """Start the process and return at once; `await_ready` must follow. Clusters only start together."""
        if self.running:
            raise RunError(f"the embedded broker on {self._dir} is running already (process {self.pid})")
        java = _find_java()
        class_path = _class_path()
        self._dir.mkdir(parents=True, exist_ok=True)
        self._await_predecessor()
        self._node = self._fixed_node or self._choose_node()
        properties_file = self._dir / "server.properties"
        properties_file.write_text(
            "".join(f"{key}={value}\n" for key, value in self._server_properties(self._node).items())
        )
        command = [
            java,
            f"-Xmx{self._heap}",
            "-XX:+UseSerialGC",  # starts half a second sooner than G1 here, with less memory
            "-Xshare:auto",
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            "-Dlog4j2.configurationFile=classpath:dev/streamapp/broker/log4j2.xml",
            f"-Dstreamapp.broker.log={self._dir / 'broker.log'}",
            "-cp",
            class_path,
            MAIN_CLASS,
            str(properties_file),
            self._node.cluster_id,
            str(os.getpid()),
        ]
        with (self._dir / "broker.err").open("w") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=self._dir,
                start_new_session=True,
            )
        self._answers = queue.SimpleQueue()
        assert self._process.stdout is not None
        threading.Thread(
            target=_pass_first_line,
            args=(self._process.stdout, self._answers),
            name="broker-answer",
            daemon=True,
        ).start()

    def await_ready(self, timeout: float = START_SECONDS) -> None:
        process = self._live_process()
        try:
            answer = self._answers.get(timeout=timeout)
        except queue.Empty:
            self.kill()
            raise RunError(
                f"the embedded broker was not ready after {timeout:.0f} s; see {self._dir / 'broker.log'}"
            ) from None
        if answer == "ready":
            return
        self._reap(process, STOP_SECONDS)
        kind, _, detail = answer.partition(" ")
        if kind == "in-use":
            raise self._in_use(detail)
        if kind == "failed":
            node = self.node
            if "already in use" in detail or "BindException" in detail:
                places = ((node.port, self._host), (node.controller_port, LOCALHOST))
                port, host = next((place for place in places if not is_free(*place)), places[0])
                raise PortTaken(
                    f"port {port} on {host} is taken by "
                    "another program; name a free one with --port, or stop that program"
                )
            raise RunError(f"the embedded broker could not start: {detail}; see {self._dir / 'broker.log'}")
        raise RunError(f"the embedded broker could not start: {self._jvm_complaint()}")

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Shut down in order; past the time limit, kill it."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        self._reap(process, timeout)

    def kill(self) -> None:
        """End it as a crash would: kill -9, and wait until it is gone."""
        process = self._process
        if process is not None:
            process.kill()
            self._reap(process, STOP_SECONDS)

    def terminate(self, timeout: float = STOP_SECONDS) -> None:
        """Send SIGTERM, as an operating system does when it shuts down, and wait until it is gone."""
        process = self._process
        if process is not None:
            process.send_signal(signal.SIGTERM)
            self._reap(process, timeout)

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- properties -----------------------------------------------------------------------------------------

    @property
    def node(self) -> Node:
        if self._node is None:
            raise RunError("the embedded broker has not been started")
        return self._node

    @property
    def bootstrap_servers(self) -> str:
        return f"{self._advertised_host}:{self.node.port}"

    @property
    def pid(self) -> int:
        return self._live_process().pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def data_dir(self) -> Path:
        return self._dir

    # --- identity, settings ---------------------------------------------------------------------------------

    def _choose_node(self) -> Node:
        """The identity of the last start, with the same ports where they are free; in a new folder, a new identity."""
        file = self._dir / "node.json"
        if file.exists():
            try:
                node = Node(**json.loads(file.read_text()))
            except (ValueError, TypeError):
                raise RunError(f"{file} is damaged; delete the folder {self._dir} to begin again") from None
        else:
            node = Node(new_cluster_id(), node_id=1, port=0, controller_port=0)
        spare = free_ports(2)
        keeps_port = node.port and is_free(node.port, self._host)
        port = self._wanted_port or (node.port if keeps_port else spare[0])
        controller = node.controller_port
        keeps = controller and controller != port and is_free(controller)
        node = replace(
            node,
            port=port,
            controller_port=controller if keeps else spare[1],
        )
        unfinished = file.with_suffix(".new")
        unfinished.write_text(json.dumps({k: v for k, v in asdict(node).items() if k != "voters"}) + "\n")
        unfinished.replace(file)
        return node

    def _server_properties(self, node: Node) -> dict[str, str]:
        brokers = len(node.all_voters)
        replicas = str(min(3, brokers))
        in_sync = str(2 if brokers >= 3 else 1)
        # A lone broker has one coordinator anyway. The two partition counts can never change for existing
        # data.
        coordinators = "1" if brokers == 1 else "3"
        return {
            "process.roles": "broker,controller",
            "node.id": str(node.node_id),
            "controller.quorum.voters": ",".join(
                f"{voter}@{LOCALHOST}:{port}" for voter, port in sorted(node.all_voters.items())
            ),
            "listeners": f"BROKER://{self._host}:{node.port},CONTROLLER://{LOCALHOST}:{node.controller_port}",
            "advertised.listeners": f"BROKER://{self._advertised_host}:{node.port}",
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BROKER",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self._dir / "data"),
            # As on most production clusters: topics are made only on purpose.
            "auto.create.topics.enable": "false",
            "num.partitions": "4",
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.num.partitions": coordinators,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": coordinators,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": "0",
            # A killed broker can come back only when its old session is over (9 s by default).
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "2000" if brokers == 1 else "3000",
            # How long a broker waits for a controller that hangs before it looks for another (30 s by
            # default).
            "controller.socket.timeout.ms": "3000",
            # Retention goes by the records' own times: replayed history would be deleted as soon as it is
            # written.
            "log.retention.ms": "-1",
            # Sized for a laptop.
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.dedupe.buffer.size": str(16 << 20),
            **self._properties,
        }

    # --- the data folder's other users ----------------------------------------------------------------------

    def _await_predecessor(self) -> None:
        """Awaits a broker whose parent was killed: it needs a moment to stop. With a live parent it does not stop."""
        lock = self._dir / "data.lock"
        deadline = time.monotonic() + PREDECESSOR_SECONDS
        while (owner := _lock_owner(lock)) is not None:
            pid, parent = owner
            if _is_alive(parent) or time.monotonic() > deadline:
                raise self._in_use(str(pid))
            time.sleep(0.05)

    def _in_use(self, pid: str) -> RunError:
        return RunError(
            f"the folder {self._dir} is in use by another embedded broker (process {pid}); stop that one, "
            "or name another folder with --state-dir"
        )

    # --- the process ----------------------------------------------------------------------------------------

    def _live_process(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RunError("the embedded broker is not running")
        return self._process

    def _reap(self, process: subprocess.Popen[str], timeout: float) -> None:
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def _jvm_complaint(self) -> str:
        """The JVM's output on stderr, when it ended without an answer to us."""
        text = (self._dir / "broker.err").read_text(errors="replace").strip()
        if "UnsupportedClassVersionError" in text:
            return f"{_find_java()} is too old; JDK 17 or later is needed (set JAVA_HOME to it)"
        if "Unable to locate a Java Runtime" in text:  # from the stub that macOS has in place of Java
            return "Java is missing; install JDK 17 or later"
        last = [line for line in text.splitlines() if line.strip()][-3:]
        return " / ".join(last) if last else f"it ended without a word; see {self._dir / 'broker.log'}"


class PortTaken(RunError):
    """The broker could not bind its port."""


def new_cluster_id() -> str:
    """A random cluster id in Kafka's own form."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass  # Kafka's tools take a leading dash for an option
    return text


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home:
        found = shutil.which("java", path=str(Path(home) / "bin"))
        if found is None:
            raise RunError(f"JAVA_HOME is {home}, where there is no bin/java; set it to a JDK 17 or later")
        return found
    found = shutil.which("java")
    if found is None:
        raise RunError("Java is missing: no java on the PATH and no JAVA_HOME; install JDK 17 or later")
    return found


def _class_path() -> str:
    runtime_jar = JARS / "streamapp-runtime.jar"
    if not runtime_jar.exists() or not any((JARS / "broker").glob("*.jar")):
        raise RunError(f"the JVM part is not built ({JARS} is incomplete); run `make setup`")
    return os.pathsep.join([str(runtime_jar), str(JARS / "broker" / "*")])


def _lock_owner(lock: Path) -> tuple[int, int] | None:
    """(pid, parent's pid) of the process that holds the lock; None when nobody does."""
    try:
        with lock.open("r+") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kind of lock Java takes
                return None
            except OSError:
                words = file.read().split()
    except FileNotFoundError:
        return None
    if len(words) == 2 and all(word.isdigit() for word in words):
        return int(words[0]), int(words[1])
    return 0, 0  # it has the lock, and is about to write its pid


def _is_alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _pass_first_line(pipe: IO[str], answers: queue.SimpleQueue[str]) -> None:
    try:
        answers.put(pipe.readline().rstrip("\n"))
    except ValueError:  # closed under us by stop()
        answers.put("")
