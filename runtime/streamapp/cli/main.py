# SPDX-License-Identifier: Apache-2.0
"""`streamapp`: finds the command, runs it, and reports errors by one line on stderr and an exit code.

    0  done        1  the input or the data is wrong        2  usage        3  the run failed (broker, engine)

A command is a module of this package with HELP (one line), DESCRIPTION, EXAMPLE, `add_arguments` and `run`,
which returns the exit code; other packages add theirs by the entry point group `streamapp.commands`. A command
imports modules beyond the standard library inside `run`, so that `--help` is quick.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from types import FrameType
from typing import Any, NoReturn, Protocol, cast

from streamapp.errors import ManifestError, StreamAppError
from streamapp.plain import plain

COMMANDS = (
    "run",
    "broker",
    "validate",
    "test",
    "explain",
    "topics",
    "produce",
    "consume",
    "query",
    "schema",
    "completion",
    "driver",
)

INTERNAL = ("driver",)
"""Commands that only our deployments call, never people."""

DONE, WRONG_INPUT, USAGE, FAILED = 0, 1, 2, 3
INTERRUPTED = 130


class Command(Protocol):
    HELP: str
    DESCRIPTION: str
    EXAMPLE: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> int: ...


class Parser(argparse.ArgumentParser):
    """argparse with one clear line per error."""

    def error(self, message: str) -> NoReturn:
        say_error(f"{message} (see {self.prog} --help)")
        sys.exit(USAGE)


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    if not given:
        parser.print_help()
        return USAGE
    refuse_unknown_command(parser, given[0])
    options = parser.parse_args(given)
    interrupts = _Interrupts()
    try:
        code: int = options.command.run(options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as in `... | head`. We must not write at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except StreamAppError as error:
        if options.debug:
            traceback.print_exc()
        for line in lines_of(error):
            say_error(line)
        if isinstance(error, ManifestError) and (left := error.left_open()):
            say_note(left)
        return error.exit_code
    except Exception as error:
        if interrupts.seen:  # a C library can turn the signal into any error
            return INTERRUPTED
        if options.debug:
            traceback.print_exc()
            return FAILED
        words = " ".join(str(error).split())
        say_error(f"unexpected {type(error).__name__}: {words} (--debug shows the stack trace)")
        return FAILED
    finally:
        interrupts.give_back()


def build_parser() -> Parser:
    parser = Parser(
        prog=_program(),
        description="Exactly-once stream processing on Spark, with its state in Kafka, from one manifest.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 done; 1 the input or data is wrong; 2 usage; 3 the run failed (broker, engine)",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"streamapp {_version()}")
    commands = parser.add_subparsers(dest="name", metavar="COMMAND", required=True)
    for name, load in commands_there_are().items():
        command = load()
        # argparse lists only the commands that have a help text.
        listed: dict[str, Any] = {} if name in INTERNAL else {"help": command.HELP}
        sub = commands.add_parser(
            name,
            **listed,
            description=command.DESCRIPTION,
            epilog=f"example:\n{command.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(sub)
        sub.add_argument("--debug", action="store_true", help="show the stack trace of an error")
        sub.set_defaults(command=command)
    return parser


def commands_there_are() -> dict[str, Callable[[], Command]]:
    """The commands by name, each as a function that imports it: our own, then those of other packages. The `query` of
    another package asks on a cluster."""
    own: dict[str, Callable[[], Command]] = {
        name: partial(cast(Callable[[str], Command], importlib.import_module), f"streamapp.cli.{name}")
        for name in COMMANDS
    }
    others = {point.name: point.load for point in entry_points(group="streamapp.commands")}
    return own | others if _program() != "streamapp" else own | others | own


def refuse_unknown_command(parser: Parser, word: str) -> None:
    known = commands_there_are()
    if word.startswith("-") or word in known:
        return
    near = difflib.get_close_matches(word, known, n=1)
    there = ", ".join(name for name in known if name not in INTERNAL)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {there}"
    parser.error(f"unknown command {word!r}; {hint}")


def lines_of(error: StreamAppError) -> list[str]:
    """One line per problem; a manifest's errors come all at once."""
    problems = getattr(error, "problems", None)
    return [str(problem) for problem in problems] if problems else [" ".join(str(error).split())]


def say_error(line: str) -> None:
    print(f"error: {plain(line)}", file=sys.stderr)


def say_note(line: str) -> None:
    print(f"note: {plain(line)}", file=sys.stderr)


class _Interrupts:
    """Makes SIGTERM end a command as Ctrl-C does: by an exception, so that the command cleans up."""

    def __init__(self) -> None:
        self.seen = False
        self._previous = {
            number: handler
            for number in (signal.SIGINT, signal.SIGTERM)
            if (handler := signal.getsignal(number)) is not signal.SIG_IGN
        }
        for number in self._previous:
            signal.signal(number, self._interrupt)

    def give_back(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _interrupt(self, _: int, __: FrameType | None) -> None:
        self.seen = True
        raise KeyboardInterrupt


def _program() -> str:
    """The name by which we were called: our own, or that of kubectl's plug-in."""
    called = os.path.basename(sys.argv[0])
    return "kubectl streamapp" if called.startswith(("kubectl-", "kubectl_complete-")) else "streamapp"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("streamapp")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
