# SPDX-License-Identifier: Apache-2.0
"""`streamapp query`: rows of a running app's state."""

from __future__ import annotations

import argparse
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from streamapp.cli.options import add_state_dir
from streamapp.errors import InputError, RunError
from streamapp.question import LIMIT, MOST_ROWS, PREFIX, Question, limit_of, moment_of
from streamapp.state_folder import find_live

HELP = "ask a running app for its state"
DESCRIPTION = f"""Prints rows of STORE, one JSON object per line: those of KEY (a value for each column of the key), or
any, {LIMIT} at most. Without STORE it lists the stores. An answer has all of the epochs that had ended when the
question came, and nothing that is not committed. On a cluster ask by `kubectl streamapp query NAME STORE`."""
EXAMPLE = """  streamapp query word-counts to
  streamapp query clicks-per-page /index.html --window-from 2024-01-31T12:00:00Z"""
_SECONDS = 60.0
"""The longest wait for an answer; the app itself gives up sooner."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", nargs="?", help="name of the store; none: list them")
    parser.add_argument("key", metavar="KEY", nargs="*", help="a value for each column of the key")
    add = parser.add_argument
    add("--limit", metavar="N", default=str(LIMIT), help=f"rows at most, up to {MOST_ROWS} (default: {LIMIT})")
    add("--window-from", metavar="TIME", help="windows that begin then or later")
    add("--window-to", metavar="TIME", help="windows that begin before")
    add("--url", help="of the app's live interface (default: that of the one app running in .streamapp/)")
    add("--token-file", metavar="FILE", type=Path, help="has the token that the live interface asks for")
    add_state_dir(parser, "ask the app running with this --state-dir")


def run(options: argparse.Namespace) -> int:
    from streamapp.cli.main import say_note

    url = options.url or find_live(options.state_dir)
    if options.store is None:
        for store in _ask(url, PREFIX, options.token_file)["stores"]:
            windows = ", windowed" if store["windowed"] else ""
            print(f"{store['name']}: {', '.join(store['key'])} -> {', '.join(store['values'])}{windows}")
        return 0
    answer = _ask(url, _question(options).path, options.token_file)
    for row in answer["rows"]:
        print(json.dumps(row, ensure_ascii=False))
    if not answer["complete"]:
        say_note(f"there are more rows than these {len(answer['rows'])}; --limit asks for more of them")
    elif not answer["rows"] and options.key:
        say_note(f"store '{options.store}' has no row for that key")
    return 0


def _question(options: argparse.Namespace) -> Question:
    return Question(
        store=options.store,
        key=tuple(options.key),
        window_from=moment_of(options.window_from, "--window-from") if options.window_from else None,
        window_to=moment_of(options.window_to, "--window-to") if options.window_to else None,
        limit=limit_of(options.limit),
    )


def _ask(url: str, path: str, token_file: Path | None) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise InputError(f"{url!r} is no address of a live interface; write for example http://127.0.0.1:8080")
    headers = {}
    if token_file is not None:
        try:
            headers["Authorization"] = f"Bearer {token_file.read_text().strip()}"
        except OSError as error:
            raise InputError(f"--token-file {token_file}: {error.strerror}") from None
    try:
        request = urllib.request.Request(url.rstrip("/") + path, headers=headers)  # noqa: S310  see above
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310
            answer: dict[str, Any] = json.load(response)
            return answer
    except urllib.error.HTTPError as error:
        words = error.read().decode(errors="replace").strip()
        if error.code == 401:
            raise InputError(f"{url} asks for a token; name a file that has it with --token-file") from None
        raise (InputError if error.code in (400, 404) else RunError)(words) from None
    except (OSError, ValueError) as error:
        raise RunError(f"no answer from {url}: {getattr(error, 'reason', error)}") from None
