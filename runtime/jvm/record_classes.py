# SPDX-License-Identifier: Apache-2.0
"""`make classes`: which classes apps load, for the archive of them (streamapp/spark/class_archive.py).

Runs the examples to the end of a little input on the embedded broker, and keeps what Java says it has loaded of Spark's
jars, of the libraries beside them and of its own. To be done after another version of Spark; a list that is a little
old costs a little time, no more.
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from streamapp.kafka.broker import EmbeddedBroker
from streamapp.spark.class_archive import CLASS_LIST, libraries, spark

EXAMPLES = Path(__file__).parents[2] / "examples"
INPUT = {
    "word-count": {"text-lines": ["the quick brown fox", "jumps over the lazy dog"]},
    "orders-payments": {
        "orders": ['{"order_id": "1", "customer": "ada", "amount": 2.5}'],
        "payments": ['{"order_id": "1", "paid": 2.5}'],
    },
    "page-views": {
        "page-views": ['{"page": "/", "user": "ada", "viewed_at": "2024-01-31T12:00:05.000Z", "ms": 120}', "no view"],
    },
    "log-router": {"log-lines": ["ERROR it burns", "INFO all is well"]},
}
_JAVAS_OWN = re.compile(r"(java|javax|jdk|sun|com/sun)/")
_MADE_ON_THE_FLY = re.compile(r"\$Proxy\d|\$\$Lambda|0x[0-9a-f]{8}")


def main() -> None:
    kept: dict[str, None] = {}
    known = _classes_of_jars()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder, "broker")) as broker:
        for example, topics in INPUT.items():
            loaded = Path(folder, f"{example}.lst")
            _run(example, topics, broker.bootstrap_servers, Path(folder, example), loaded)
            lines = [line for line in loaded.read_text().splitlines() if _belongs(line, known)]
            kept.update(dict.fromkeys(lines))
            print(f"{example}: {len(lines)} lines, {len(kept)} in all", flush=True)
    # Without a name and a date in it the file changes only with what it says.
    CLASS_LIST.write_bytes(gzip.compress("".join(f"{line}\n" for line in kept).encode(), mtime=0))


def _run(example: str, topics: dict[str, list[str]], servers: str, state: Path, loaded: Path) -> None:
    manifest, at = str(EXAMPLES / f"{example}.yaml"), ("--bootstrap-servers", servers)
    _streamapp("topics", manifest, "--create", *at)
    for topic, lines in topics.items():
        _streamapp("produce", topic, *at, text="".join(f"{line}\n" for line in lines))
    options = {"JAVA_TOOL_OPTIONS": f"-XX:DumpLoadedClassList={loaded}"}
    _streamapp("run", manifest, "--until-caught-up", "--state-dir", str(state), *at, more=options)


def _streamapp(*arguments: str, text: str = "", more: dict[str, str] | None = None) -> None:
    command = [sys.executable, "-m", "streamapp.cli.main", *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, env={**os.environ, **(more or {})})
    if done.returncode != 0:
        sys.exit(f"`streamapp {' '.join(arguments)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _belongs(line: str, known: set[str]) -> bool:
    """Lines are of a class, or, with an @, of a lambda expression in one."""
    if _MADE_ON_THE_FLY.search(line) or line.startswith("#"):
        return False
    name = line.split()[1] if line.startswith("@lambda-proxy") else line.split()[0]
    return name.startswith("@") or bool(_JAVAS_OWN.match(name)) or name in known


def _classes_of_jars() -> set[str]:
    names: set[str] = set()
    for jar in [*(spark() / "jars").glob("*.jar"), *libraries()]:
        with zipfile.ZipFile(jar) as opened:
            names.update(name.removesuffix(".class") for name in opened.namelist() if name.endswith(".class"))
    return names


if __name__ == "__main__":
    main()
