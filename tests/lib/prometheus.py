# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus, from Debian's package."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from cluster.packages import program
from lib.wait import until
from streamapp.kafka.ports import free_ports


class Prometheus:
    """Scrapes these addresses every second; `with` ends it.

    Args:
        folder: the folder for its data.
        targets: address to labels that every series of it gets, unless it has them itself.
        rules: files of rules.
    """

    def __init__(self, folder: Path, targets: dict[str, dict[str, str]], rules: tuple[Path, ...] = ()) -> None:
        self._folder = folder
        self._targets, self._rules = targets, rules
        (self._port,) = free_ports(1)

    def __enter__(self) -> Prometheus:
        jobs = [{"targets": [address], "labels": labels} for address, labels in self._targets.items()]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file) for file in self._rules],
            "scrape_configs": [{"job_name": "test", "honor_labels": True, "static_configs": jobs}],
        }
        file = self._folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config))
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={file}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdout=log,
                stderr=log,
            )
        until(lambda: self._all_up(), 60, "every target has been scraped", every=0.2)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series that the query returns now."""
        found: list[dict[str, Any]] = self._get("query", query=query)["result"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """Every rule, with its health."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _all_up(self) -> bool:
        try:
            return len(self.ask("up == 1")) == len(self._targets)
        except OSError:
            assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
            return False

    def _get(self, page: str, **query: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._port}/api/v1/{page}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found: dict[str, Any] = json.loads(answer.read())["data"]
        return found
