# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes objects of apps, as `streamapp render` prints them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamapp.cli.main import main

HERE = Path(__file__).parent
FILES = sorted((HERE / "objects").glob("*.manifest.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.split(".")[0])
def test_objects(file: Path, golden: Callable[[Path, str], None], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(file)]) == 0
    golden(file.with_name(file.name.replace(".manifest", "")), capsys.readouterr().out)


def test_an_image_and_a_namespace_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(FILES[-1]), "--image", "mine:1", "--namespace", "shop"]) == 0
    printed = capsys.readouterr().out
    assert "image: mine:1" in printed
    assert "--executor-image=mine:1" in printed
    assert "--owner=shop/" in printed


def test_a_template_that_the_operator_s_values_allow(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (root / "examples" / "word-count.yaml").read_text()
    kafka = "spec:\n  kafka: {bootstrapServers: 'kafka:9092'}\n  driver: {podTemplate: {spec: {hostPID: true}}}\n"
    (file := tmp_path / "app.yaml").write_text(text.replace("spec:\n", kafka, 1))
    assert main(["render", str(file)]) == 1
    assert "apps.podTemplate.allow: [hostNamespaces]" in capsys.readouterr().err
    assert main(["render", str(file), "--allow", "hostNamespaces"]) == 0
    assert "hostPID: true" in capsys.readouterr().out
    assert main(["render", str(file), "--allow", "hostpid"]) == 1
    assert "--allow: there is no part 'hostpid'; there are: containers, " in capsys.readouterr().err


def test_without_kafka_there_is_nothing_to_render(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(root / "examples" / "word-count.yaml")]) == 1
    assert "`kafka` is missing; say where Kafka is" in capsys.readouterr().err
