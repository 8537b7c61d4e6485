# SPDX-License-Identifier: Apache-2.0
"""The command line itself: help, exit codes, one clear line per error, and finding the app that runs here."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from streamapp.cli.main import COMMANDS, main
from streamapp.cli.stopping import lines_until_stopped, stop_on_signals
from streamapp.errors import InputError, RunError
from streamapp.state_folder import find_live, find_run, occupied, publish, running_here


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def usage_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    assert exit_.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([command, "--help"])
    assert exit_.value.code == 0
    assert f"example:\n  streamapp {command}" in capsys.readouterr().out.replace("echo 'the quick brown fox' | ", "")


def test_help_loads_no_engine() -> None:
    code = (
        "import sys\nfrom streamapp.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'pyspark', 'confluent_kafka', 'pydantic', 'sqlglot', 'pandas'} & sys.modules.keys()\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["consum"], "error: unknown command 'consum'; did you mean 'consume'?"),
        (["frobnicate"], "error: unknown command 'frobnicate'; there are: run, broker"),
        (["consume"], "error: the following arguments are required: TOPIC"),
        (["consume", "t", "--max", "0"], "error: argument --max: '0' is not a whole number of 1 or more"),
        (
            ["consume", "t", "--timeout", "soon"],
            "error: argument --timeout: 'soon' is not a number of seconds",
        ),
        (["broker", "--port", "70000"], "error: argument --port: '70000' is not a port"),
        (["run", "f", "--heap", "lots"], "error: argument --heap: 'lots' is no size of memory; write e.g. 512m or 2g"),
        (["completion", "fish"], "error: argument SHELL: invalid choice: 'fish' (choose from 'bash', 'zsh')"),
        (["run", "f", "--frob"], "error: unrecognized arguments: --frob"),
    ],
)
def test_usage_errors_are_one_line_and_code_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert usage_error(capsys, *arguments).startswith(complaint)


def test_no_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "COMMAND" in capsys.readouterr().out


def test_a_missing_file_is_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nowhere.yaml"]) == 1
    assert capsys.readouterr().err == "error: nowhere.yaml: No such file or directory\n"


def test_a_broker_on_every_address_needs_a_name_for_its_clients(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--host", "0.0.0.0"]) == 1
    assert capsys.readouterr().err == (
        "error: --host 0.0.0.0 is no address that a client could dial; "
        "add the one by which they reach this machine: --advertised-host HOST\n"
    )


def test_no_stack_trace_but_with_debug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(options: object) -> int:
        raise ZeroDivisionError("over\nnothing")

    monkeypatch.setattr(importlib.import_module("streamapp.cli.schema"), "run", fail)
    assert main(["schema"]) == 3
    assert capsys.readouterr().err == (
        "error: unexpected ZeroDivisionError: over nothing (--debug shows the stack trace)\n"
    )
    assert main(["schema", "--debug"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_nothing_runs_here() -> None:
    with pytest.raises(InputError, match=r"nothing runs here .* name one with --bootstrap-servers"):
        find_run(None)


def test_a_stopped_run_of_an_embedded_broker_says_how_its_topics_are_read() -> None:
    folder = Path(".streamapp/word count")
    with occupied(folder):
        (folder / "broker").mkdir()
        with pytest.raises(InputError, match=r"start `streamapp run`"):
            find_run(None)  # it is just starting
    for asked in (None, folder):
        with pytest.raises(InputError, match=r"`streamapp broker --state-dir '\.streamapp/word count'`"):
            find_run(asked)


def test_the_one_that_runs_here_is_found() -> None:
    folder = Path(".streamapp/app")
    with occupied(folder):
        assert running_here() == []  # it has not written its address yet
        publish(folder, "127.0.0.1:1", url=None)
        assert find_run(None).bootstrap_servers == find_run(folder).bootstrap_servers == "127.0.0.1:1"
    assert running_here() == []


def test_a_dead_run_is_not_taken_for_a_live_one() -> None:
    folder = Path(".streamapp/app")
    with occupied(folder):
        publish(folder, "127.0.0.1:1", url=None)
        left_behind = (folder / "app.json").read_text()
    (folder / "app.json").write_text(left_behind)  # as after kill -9
    assert running_here() == []


def test_two_that_run_here_are_listed() -> None:
    one, two = Path(".streamapp/one"), Path(".streamapp/two")
    with occupied(one), occupied(two):
        publish(one, "127.0.0.1:1", url=None)
        publish(two, "127.0.0.1:2", url=None)
        with pytest.raises(InputError, match=r"127.0.0.1:1 \(.streamapp/one\); 127.0.0.1:2 \(.streamapp/two\)"):
            find_run(None)
        assert find_run(two).bootstrap_servers == "127.0.0.1:2"
        publish(two, "127.0.0.1:1", url=None)  # two apps on one Kafka
        assert find_run(None).bootstrap_servers == "127.0.0.1:1"


def test_the_live_interface_of_the_one_app_that_runs_here_is_found() -> None:
    one, two = Path(".streamapp/one"), Path(".streamapp/two")
    with pytest.raises(InputError, match=r"no app runs here .* or name one with --url"):
        find_live(None)
    with occupied(one), occupied(two):
        publish(one, "127.0.0.1:1", url=None)  # a broker
        publish(two, "127.0.0.1:1", url="http://127.0.0.1:2")
        assert find_live(None) == "http://127.0.0.1:2"
        publish(one, "127.0.0.1:1", url="http://127.0.0.1:3")
        with pytest.raises(InputError, match=r"\.streamapp/one, \.streamapp/two; name one with --state-dir"):
            find_live(None)
        assert find_live(one) == "http://127.0.0.1:3"


def test_a_state_folder_has_one_user() -> None:
    folder = Path("state")
    with (
        occupied(folder),
        pytest.raises(RunError, match=r"state is in use by process \d+; stop that run, or"),
        occupied(folder),
    ):
        pass


@pytest.mark.parametrize("text", ["", "\n", "one", "one\n", "one\n\ntwo", "a" * 200_000 + "\nb\n"])
def test_lines_come_as_they_are(text: str) -> None:
    reader, writer = os.pipe()
    feeder = threading.Thread(target=feed, args=(writer, text.encode()))
    feeder.start()
    with stop_on_signals() as stop:
        assert list(lines_until_stopped(reader, stop)) == text.encode().splitlines(keepends=True)
    feeder.join()
    os.close(reader)


def test_a_signal_ends_the_lines_though_more_may_come() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"one\nbegun")
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        lines = lines_until_stopped(reader, stop)
        assert next(lines) == b"one\n"
        signal.raise_signal(signal.SIGTERM)
        assert list(lines) == []
        assert stop.wait(60)
    assert signal.getsignal(signal.SIGTERM) is before
    os.close(reader)
    os.close(writer)


def feed(writer: int, content: bytes) -> None:
    with open(writer, "wb") as out:
        out.write(content)


def manifest(tmp_path: Path, *nodes: str) -> str:
    file = tmp_path / "app.yaml"
    head = "apiVersion: streamapp.dev/v1alpha1\nkind: StreamApp\nmetadata: {name: app}\nspec:\n  topology:\n"
    stream = "- {name: orders, stream: {topic: orders, value: {format: json, schema: 'user STRING, amount DOUBLE'}}}"
    file.write_text(head + "\n".join(f"  {node}" for node in (stream, *nodes)) + "\n")
    return str(file)


OUT = "- {name: out, from: orders, to: {topic: results}}"


@pytest.mark.parametrize("command", [["validate", "--no-types"], ["explain"]])
def test_a_node_that_leads_nowhere_is_warned_of(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    branch = "- {name: sizes, from: orders, branch: [{name: large, when: amount > 9}]}"
    file = manifest(tmp_path, "- {name: lost, filter: amount > 3}", branch, OUT)
    assert main([*command, file]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"warning: {file}: node 'lost': leads nowhere: it has no `to`, and no node reads it; "
        "its records are dropped; to keep them, add e.g. {from: lost, to: {topic: …}}",
        f"warning: {file}: node 'large': leads nowhere: no node reads this branch; "
        "its records are dropped; to keep them, add e.g. {from: large, to: {topic: …}}",
    ]


def test_validate_says_what_it_could_not_check_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = manifest(tmp_path, "- {name: a, filter: x, with: {'y': '1'}}", "- {name: b, filter: y > 1}", OUT)
    assert main(["validate", file]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"error: {file}: node 'a': has `filter` and `with`, and a node has one operation; make a node of each (line 7)",
        f"note: {file}: types could not be checked before this is right, nor 2 nodes in full: a, b",
    ]


def test_what_is_internal_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "    driver " not in capsys.readouterr().out
    assert main(["completion", "words", "completion", ""]) == 0
    assert capsys.readouterr().out.split() == ["bash", "zsh"]


def test_topics_are_listed_without_kafka(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", manifest(tmp_path, OUT)]) == 0
    shown = capsys.readouterr()
    assert [line.split()[-1] for line in shown.out.splitlines()] == ["KAFKA", *["unknown"] * 4]
    assert shown.err == (
        "note: no Kafka is named and none runs here; --bootstrap-servers HOST:PORT names one to compare with\n"
    )


def test_a_kubeconfig_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "x", "--kubeconfig", "nowhere/config"]) == 1
    assert capsys.readouterr().err.startswith("error: no cluster by nowhere/config: ")


@pytest.mark.parametrize("place", ["file", "ftp://127.0.0.1", "127.0.0.1:8080"])
def test_only_a_live_interface_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str) -> None:
    (tmp_path / "stores").write_text('{"stores": []}')
    url = f"file://{tmp_path}" if place == "file" else place
    assert main(["query", "--url", url]) == 1
    assert f"{url!r} is no address of a live interface" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["status NAME", "logs NAME", "scale NAME 2", "restart NAME", "suspend NAME", "adopt NAME local/NAME"]
)
def test_commands_for_a_cluster_say_what_there_is_for_an_app_that_runs_here(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    there = "this machine: http://127.0.0.1:1/status shows its status, PUT http://127.0.0.1:1/replicas scales it"
    folder = Path(".streamapp/words")
    with occupied(folder):
        publish(folder, "h:1", "http://127.0.0.1:1")
        for name, hinted in (("words", True), ("other", False), ("", False), ("..", False)):
            assert main([name if word == "NAME" else word.replace("NAME", "words") for word in command.split()]) == 1
            error = capsys.readouterr().err
            assert error.startswith("error: no cluster")
            assert (there in error) is hinted
    assert main([word.replace("NAME", "words") for word in command.split()]) == 1
    assert there not in capsys.readouterr().err, "it has ended"
