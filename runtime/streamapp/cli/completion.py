# SPDX-License-Identifier: Apache-2.0
"""`streamapp completion`: scripts that complete our commands in a shell, and the words for kubectl's plug-in."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence

HELP = "completion for bash, zsh and kubectl"
DESCRIPTION = """Prints a script that makes a shell complete commands, options and, where a command is about a cluster,
names of StreamApps. kubectl completes `kubectl streamapp` by itself once kubectl_complete-streamapp is on the PATH,
where this package puts it."""
EXAMPLE = """  streamapp completion bash > ~/.local/share/bash-completion/completions/streamapp
  source <(streamapp completion zsh)"""

_BASH = """_streamapp() {
  local found
  found=$(streamapp completion words -- "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null)
  COMPREPLY=($(compgen -W "$found" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _streamapp streamapp
"""
SCRIPTS = {"bash": _BASH, "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{_BASH}"}
_KUBECTL_NO_FILES, _KUBECTL_FILES = ":4", ":0"
"""The directive that follows the words for kubectl: whether it may also offer names of files."""


class _Shells(tuple[str, ...]):
    """The shells. `words`, which their scripts call, is accepted too, and not shown."""

    def __contains__(self, word: object) -> bool:
        return word == "words" or super().__contains__(word)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=_Shells(SCRIPTS), help="bash or zsh")
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    if options.shell in SCRIPTS:
        print(SCRIPTS[options.shell], end="")
    else:
        print("\n".join(suggestions(options.words)))
    return 0


def for_kubectl() -> int:
    """The program kubectl_complete-streamapp: its arguments are the words so far."""
    found = suggestions(sys.argv[1:])
    print("\n".join([*found, _KUBECTL_NO_FILES if found else _KUBECTL_FILES]))
    return 0


def suggestions(words: Sequence[str]) -> list[str]:
    """The possible completions of the last word.

    Args:
        words: the words behind the program's name; the last is the one to complete, and may be empty.
    """
    from streamapp.cli.main import INTERNAL, commands_there_are

    *before, last = words or [""]
    known = commands_there_are()
    if not before:
        return _beginning_with(last, (name for name in known if name not in INTERNAL))
    if before[0] not in known:
        return []
    command = known[before[0]]()
    parser = argparse.ArgumentParser(add_help=True)
    command.add_arguments(parser)
    options = {name: action for action in parser._actions for name in action.option_strings}
    if last.startswith("-"):
        return _beginning_with(last, (name for name in options if name.startswith("--")))
    if (asked := options.get(before[-1])) is not None and asked.nargs != 0:
        return _beginning_with(last, asked.choices or ())
    positionals = [action for action in parser._actions if not action.option_strings]
    given = _given(before[1:], options)
    if given >= len(positionals):
        return []
    if positionals[given].choices:
        return _beginning_with(last, positionals[given].choices or ())
    suggest: Callable[[Sequence[str]], Sequence[str]] | None = getattr(command, "suggest", None)
    if suggest is None or given > 0:
        return []
    with contextlib.suppress(Exception):  # a completion must not print errors, even if the cluster has trouble
        return _beginning_with(last, suggest(before[1:]))
    return []


def _given(words: Sequence[str], options: dict[str, argparse.Action]) -> int:
    """The number of words that are neither options nor values of options."""
    count, value_follows = 0, False
    for word in words:
        if value_follows:
            value_follows = False
        elif word.startswith("-"):
            value_follows = word in options and options[word].nargs != 0
        else:
            count += 1
    return count


def _beginning_with(word: str, known: Iterable[object]) -> list[str]:
    return sorted(str(each) for each in known if str(each).startswith(word))
