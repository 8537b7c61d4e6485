# SPDX-License-Identifier: Apache-2.0
"""`streamapp test`: an app's test cases."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from streamapp.cli.options import positive
from streamapp.errors import InputError, StreamAppError

if TYPE_CHECKING:
    from streamapp.testing.cases import Case, CaseFile

HELP = "run test cases of an app"
DESCRIPTION = """Runs the cases of each FILE: records are sent, the output is compared, time advances, stores are
queried, the app is crashed, restarted, scaled and upgraded. It starts an embedded broker of its own and one engine for
all files; no Kafka of yours is touched. The exit code is 0 when every case has passed, 1 when one has failed, 3 when
the broker or the engine has failed. docs/testing.md describes the files."""
EXAMPLE = """  streamapp test tests/*.yaml
  streamapp test word-count.test.yaml --only "counts words" --junit results.xml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="a file of test cases")
    parser.add_argument("--only", metavar="TEXT", help="only cases whose name holds this text")
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write the results as JUnit's XML")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=positive,
        default=120,
        help="for a step to be processed (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    from streamapp.kafka.broker import EmbeddedBroker
    from streamapp.kafka.config import KafkaConfig
    from streamapp.testing.junit import junit_xml
    from streamapp.testing.runner import BROKER_OF_CASES, Runner

    files = _read(options.files, options.only)
    started = time.monotonic()
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="streamapp-test-", ignore_cleanup_errors=True) as folder,
        EmbeddedBroker(Path(folder) / "broker", properties=BROKER_OF_CASES) as broker,
    ):
        runner = Runner(KafkaConfig(broker.bootstrap_servers), Path(folder) / "engine", options.timeout)
        try:
            for file, cases in files:
                print(file.path, flush=True)
                for case in cases:
                    print(f"  {case.name} ... ", end="", flush=True)
                    result = runner.run(file, case)
                    print("FAILED" if result.problem else f"ok ({result.seconds:.1f} s)", flush=True)
                    for line in result.problem:
                        print(f"    {line}", flush=True)
                    results.append(result)
        finally:
            runner.close()
            if options.junit is not None:
                _write(options.junit, junit_xml(results))
    failed = sum(bool(result.problem) for result in results)
    print(f"{len(results) - failed} passed, {failed} failed", flush=True)
    print(f"in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 3 if any(result.broke for result in results) else 1 if failed else 0


def _read(paths: list[Path], only: str | None) -> list[tuple[CaseFile, list[Case]]]:
    """The files with the cases to run. All mistakes in them are reported before any case starts."""
    from streamapp.local import read_text
    from streamapp.testing.cases import CaseError, read_cases
    from streamapp.testing.fit import misfits

    files, problems = [], []
    for path in paths:
        try:
            file = read_cases(read_text(path), path)
            problems += misfits(file)
        except StreamAppError as error:
            found = getattr(error, "problems", None) or [error]
            problems += [line if str(path) in (line := str(each)) else f"{path}: {line}" for each in found]
            continue
        files.append((file, [case for case in file.cases if only is None or only in case.name]))
    if problems:
        raise CaseError(list(dict.fromkeys(problems)))
    if not any(cases for _, cases in files):
        raise InputError(f"no case has '{only}' in its name")
    return [(file, cases) for file, cases in files if cases]


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"--junit {file}: {error.strerror}") from None
