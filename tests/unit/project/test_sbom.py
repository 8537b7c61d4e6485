# SPDX-License-Identifier: Apache-2.0
"""The output of container/sbom.py for jars and packages; tests/cluster compares it with the images."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "container" / "sbom.py"
POM = "META-INF/maven/{0}/{1}/pom.properties"


@pytest.fixture
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_jar(path: Path, *libraries: tuple[str, str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("A.class", b"")
        for group, artifact, version in libraries:
            text = f"#made by Maven\ngroupId={group}\nartifactId={artifact}\nversion={version}\n"
            jar.writestr(POM.format(group, artifact), text)
    return path


def test_a_jar_is_named_as_maven_names_it_with_what_was_packed_along(sbom: ModuleType, tmp_path: Path) -> None:
    made = make_jar(tmp_path / "a-core-1.2.jar", ("org.b", "b", "3"), ("org.a", "a-core", "1.2"))
    found = sbom.jar(made, "/x/a-core-1.2.jar")
    assert found["purl"] == "pkg:maven/org.a/a-core@1.2"
    assert [part["purl"] for part in found["components"]] == ["pkg:maven/org.b/b@3"]
    assert len(found["hashes"][0]["content"]) == 64


def test_one_without_coordinates_has_those_of_the_list_beside_it(sbom: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "dependencies.txt").write_text(
        "The following files have been resolved:\n   org.a:a:jar:1.2:compile\n   org.b:b:jar:1.2:compile\n"
    )
    assert sbom.jar(make_jar(tmp_path / "a-1.2.jar"), "a")["purl"] == "pkg:maven/org.a/a@1.2"


def test_one_that_nothing_is_known_of_has_its_name_and_version(sbom: ModuleType, tmp_path: Path) -> None:
    found = sbom.jar(make_jar(tmp_path / "cats-kernel_2.13-2.8.0.jar"), "c")
    assert (found["name"], found["version"]) == ("cats-kernel_2.13", "2.8.0")
    assert "purl" not in found


def test_packages_of_debian_are_those_installed(sbom: ModuleType) -> None:
    status = """\
Package: tini
Status: install ok installed
Architecture: amd64
Version: 0.19.0-1+b3
Description: a tiny init
 with a second line

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""
    found = list(sbom.debian_packages(status))
    assert [part["purl"] for part in found] == ["pkg:deb/debian/tini@0.19.0-1%2Bb3?arch=amd64"]


def test_the_document_names_the_image_at_our_version(sbom: ModuleType) -> None:
    ours = {"version": "0.1.0", "purl": "pkg:pypi/streamapp@0.1.0"}
    made = sbom.document("streamapp/runtime", [ours])
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert made["metadata"]["component"]["version"] == "0.1.0"
