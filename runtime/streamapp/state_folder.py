# SPDX-License-Identifier: Apache-2.0
"""The folder a run keeps here, and how another shell finds the run by it.

STATE_DIR (default .streamapp/NAME) holds:

    run.lock     locked for as long as the run lives; so a second run is refused, and a dead run's file is
                 known as such
    app.json     bootstrapServers and url of the run
    kafka-client.properties    how to be let in by Kafka, where it asks
    broker/      the embedded broker's data, where there is one

Everything else in it belongs to the engine.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamapp.errors import InputError, RunError

DEFAULT_PARENT = Path(".streamapp")
CREDENTIALS = "kafka-client.properties"
"""In the state folder: client properties by which the run's own clients, and commands beside it, are let in."""


@dataclass(frozen=True)
class Running:
    """A run that is alive, and its two addresses. `url` is None where nothing serves it (yet)."""

    state_dir: Path
    bootstrap_servers: str
    url: str | None


def default_state_dir(name: str) -> Path:
    return DEFAULT_PARENT / name


@contextmanager
def occupied(state_dir: Path) -> Iterator[None]:
    """Makes the folder and holds it. Raises RunError when another run has it."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        lock = (state_dir / "run.lock").open("a+")
    except OSError as error:
        raise RunError(f"the state folder {state_dir} cannot be used: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise RunError(
                f"the state folder {state_dir} is in use by process {lock.read().strip() or '?'}; "
                "stop that run, or name another folder with --state-dir"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        (state_dir / "app.json").unlink(missing_ok=True)  # of an earlier run, which could not clean up
        try:
            yield
        finally:
            (state_dir / "app.json").unlink(missing_ok=True)


def publish(state_dir: Path, bootstrap_servers: str, url: str | None) -> None:
    """Writes the addresses, in one step: a reader sees the old file or the new."""
    unfinished = state_dir / "app.json.new"
    unfinished.write_text(json.dumps({"bootstrapServers": bootstrap_servers, "url": url, "pid": os.getpid()}) + "\n")
    unfinished.replace(state_dir / "app.json")


def running_here(state_dir: Path | None = None) -> list[Running]:
    """The runs alive in the current folder's .streamapp, or the one in `state_dir`."""
    folders = [state_dir] if state_dir else sorted(DEFAULT_PARENT.glob("*"))
    return [found for folder in folders if (found := _read(folder)) is not None]


def find_run(state_dir: Path | None) -> Running:
    """A run on the only Kafka in use here. InputError when there is none, or more than one."""
    runs = running_here(state_dir)
    addresses = {run.bootstrap_servers for run in runs}
    if len(addresses) == 1:
        return runs[0]
    if addresses:
        listed = "; ".join(f"{run.bootstrap_servers} ({run.state_dir})" for run in runs)
        raise InputError(
            f"more than one Kafka is in use here: {listed}; name one with --bootstrap-servers or --state-dir"
        )
    where = f"in {state_dir}" if state_dir else f"here (in {DEFAULT_PARENT}/)"
    if stopped := _stopped_brokers(state_dir):
        commands = " or ".join(broker_command(folder) for folder in stopped)
        raise InputError(
            f"no Kafka address: nothing runs {where}; the topics of a run that has ended can be read while its "
            f"embedded broker runs: start it in a second shell with {commands}, or name another Kafka with "
            "--bootstrap-servers HOST:PORT"
        )
    raise InputError(
        f"no Kafka address: nothing runs {where}; start `streamapp run` or `streamapp broker`, "
        "or name one with --bootstrap-servers HOST:PORT"
    )


def broker_command(state_dir: Path) -> str:
    """The command that starts the embedded broker of a run that has ended, so that its topics can be read.

    >>> broker_command(Path(".streamapp/word count"))
    "`streamapp broker --state-dir '.streamapp/word count'`"
    """
    return f"`streamapp broker --state-dir {shlex.quote(str(state_dir))}`"


def _stopped_brokers(state_dir: Path | None) -> list[Path]:
    folders = [state_dir] if state_dir else sorted(DEFAULT_PARENT.glob("*"))
    return [folder for folder in folders if (folder / "broker").is_dir() and not _is_occupied(folder)]


def find_live(state_dir: Path | None) -> str:
    """The live interface of the only app that runs here. InputError when there is none, or more than one."""
    runs = {str(run.state_dir): run.url for run in running_here(state_dir) if run.url is not None}
    if len(runs) == 1:
        return next(iter(runs.values()))
    if runs:
        raise InputError(f"more than one app runs here: {', '.join(runs)}; name one with --state-dir")
    where = f"in {state_dir}" if state_dir else f"here (in {DEFAULT_PARENT}/)"
    raise InputError(f"no app runs {where}; start `streamapp run`, or name one with --url http://HOST:PORT")


def running_app(name: str) -> Running | None:
    """The app of that name, if it runs here, in the folder that it has by default, and answers."""
    found = next((run for run in running_here() if run.state_dir.name == name), None)
    return found if found is not None and found.url is not None else None


def _read(state_dir: Path) -> Running | None:
    if not _is_occupied(state_dir):
        return None
    try:
        found = json.loads((state_dir / "app.json").read_text())
        return Running(state_dir, found["bootstrapServers"], found.get("url"))
    except (OSError, ValueError, KeyError):
        return None  # it is just starting


def _is_occupied(state_dir: Path) -> bool:
    try:
        with (state_dir / "run.lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except FileNotFoundError:
        return False
    except OSError:
        return True
