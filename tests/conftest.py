# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests. The broker is one for the session: each test has topic names of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import settings

from cluster.access import Cluster
from cluster.binaries import KUBERNETES
from cluster.choice import a_cluster
from cluster.errors import Unavailable
from cluster.images import OPERATOR, RUNTIME
from cluster.namespace import Namespace, new_namespace
from cluster.programs import helm_program
from lib.broker import new_topic
from lib.chart import CHART, Helm, Object, Render
from lib.faults import quick_broker
from lib.java import JAVA_OPTIONS, SHORT_LIVED
from lib.left_out import leave_out, or_left_out
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig

os.environ.setdefault(JAVA_OPTIONS, SHORT_LIVED)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # SIGINT is ignored in the background of a script. Processes that tests start would ignore it too, and tests try
    # Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A machine may be busy with other work: the duration of an example shows nothing.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

collect_ignore = ["cluster/in_pods"]  # scripts for pods, which a search for doctests would run


class _FailuresAtOnce:
    """Prints a failure when it happens: a run that is cut off has no summary."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED ({report.when}) {report.nodeid}", red=True)
            self._terminal.write_line(report.longreprtext)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailuresAtOnce(terminal))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden files anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In tests with a broker and in pods, the files with the longest tests come first, so that all workers end at about
    the same time."""
    longest: dict[Path, float] = {}
    for item in items:
        limit = (
            item.get_closest_marker("timeout")
            if item.path.parent.name in ("kafka", "differential", "cluster")
            else None
        )
        if limit is not None:
            longest[item.path] = max(longest.get(item.path, 0), limit.args[0])
    items.sort(key=lambda item: -longest.get(item.path, 0))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """`golden(file, text)`: checks that the text is the content of the file.

    With --rewrite-golden the file is written anew; the diff is then reviewed as a claim.
    """

    def compare(file: Path, text: str) -> None:
        if request.config.getoption("--rewrite-golden", default=False):
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"{file} is missing; run pytest with --rewrite-golden and review it"
        assert text == file.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """One real broker, shared. A test that stops, pauses or reconfigures a broker starts one of its own."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def kafka(broker: EmbeddedBroker) -> KafkaConfig:
    return KafkaConfig(broker.bootstrap_servers)


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker of the test file's own, for faults; it gives up dead producers soon."""
    with quick_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def own_kafka(own_broker: EmbeddedBroker) -> KafkaConfig:
    return KafkaConfig(own_broker.bootstrap_servers)


@pytest.fixture
def topic(kafka: KafkaConfig, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topics named after the test: `topic()`, `topic(partitions=4)`."""

    def make(partitions: int = 1, **config: str) -> str:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        return new_topic(kafka, request.node.name, partitions, settings)

    return make


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One Kubernetes cluster, shared; each test has namespaces of its own.

    If there can be none, tests that need it are left out, which is reported clearly; in CI they fail.
    """
    try:
        with a_cluster() as running:
            yield running
    except Unavailable as error:
        leave_out(error)


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    """A namespace of the test's own, in which only pods under the `restricted` Pod Security standard run."""
    with new_namespace(cluster, request.node.name) as made:
        yield made


@pytest.fixture(scope="session")
def runtime_image(cluster: Cluster) -> str:
    """The name of the image of the present sources, known to the cluster."""
    cluster.load_image(RUNTIME)
    return RUNTIME


@pytest.fixture(scope="session")
def operator_image(cluster: Cluster) -> str:
    """The name of the image of the present sources, known to the cluster."""
    cluster.load_image(OPERATOR)
    return OPERATOR


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm, without a cluster."""
    program = or_left_out(helm_program)
    home = tmp_path_factory.mktemp("helm")
    folders = {f"HELM_{part}_HOME": str(home / part.lower()) for part in ("CACHE", "CONFIG", "DATA")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *arguments], capture_output=True, text=True, env=folders, timeout=60)

    return run


@pytest.fixture(scope="session")
def render(helm: Helm) -> Render:
    """The chart, rendered by Helm itself."""

    def objects(*options: str, namespace: str = "streams") -> list[Object]:
        place = ("--namespace", namespace, "--kube-version", KUBERNETES)
        done = helm("template", "ops", str(CHART), *place, *options)
        assert done.returncode == 0, done.stderr
        return [item for item in yaml.safe_load_all(done.stdout) if item]

    return objects


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the tests that could not run here last and loudest; `make test` prints them once more at its own end."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = {str(report.longrepr[2]) for report in skipped if "NOT RUN" in str(report.longrepr)}
    lines = sorted(reason.removeprefix("Skipped: ") for reason in reasons)
    for line in lines:
        terminalreporter.write_line(line, red=True, bold=True)
    if lines and (file := os.environ.get("STREAMAPP_LEFT_OUT")):
        with Path(file).open("a") as out:
            out.writelines(f"{line}\n" for line in lines)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return Path(__file__).resolve().parent.parent
