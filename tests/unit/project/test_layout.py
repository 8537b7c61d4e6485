# SPDX-License-Identifier: Apache-2.0
"""Facts about the repository that are easily broken and hard to notice."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = (".py", ".scala", ".sh", ".java")
REGISTRY_HOST = re.compile(
    r"pypi\.org|pythonhosted\.org|repo1?\.maven\.(apache\.)?org|repo\.maven|maven\.org/maven2|registry\.npmjs|index-url"
    r"|docker\.io|docker\.com|ghcr\.io|quay\.io|registry\.k8s|gcr\.io",
    re.I,
)


@pytest.fixture(scope="module")
def tracked(root: Path) -> list[Path]:
    """The files that git has or would take in."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return [path for name in listed.split("\0") if name and (path := root / name).is_file()]


def test_operator_folder_is_no_package(root: Path) -> None:
    # It would shadow the standard library's `operator` for anybody who starts Python in this folder.
    assert not (root / "operator" / "__init__.py").exists()


def test_standard_library_operator_survives_in_the_root(root: Path) -> None:
    code = "import operator; print(operator.itemgetter.__module__)"
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "operator"


def test_every_source_file_begins_with_its_licence(tracked: list[Path]) -> None:
    def licensed(path: Path) -> bool:
        return "SPDX-License-Identifier: Apache-2.0" in "".join(path.read_text().splitlines(True)[:3])

    assert [path for path in tracked if path.suffix in SOURCES and not licensed(path)] == []


def test_no_registry_host_is_named(tracked: list[Path]) -> None:
    texts = [path for path in tracked if path.suffix not in (".png", ".svg", ".jar") and path.name != "test_layout.py"]
    assert [path for path in texts if REGISTRY_HOST.search(path.read_text(errors="replace"))] == []


def test_no_built_jar_is_tracked(tracked: list[Path]) -> None:
    assert [path for path in tracked if path.suffix in (".jar", ".class", ".whl")] == []


def test_what_spark_keeps_to_itself_is_taken_in_one_place(root: Path) -> None:
    sources = (root / "runtime" / "jvm" / "src").rglob("*.scala")
    reflecting = re.compile(r"getDeclared|setAccessible|\.reflect\.|Class\.forName")
    assert [path.name for path in sources if reflecting.search(path.read_text())] == ["SparkInternals.scala"]


LOCKS = ("requirements.lock", "container/build.lock", "container/operator.lock", "container/runtime.lock")
PINNED = re.compile(r"([A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+)( ; [^;]+?)?((?: --hash=sha256:[0-9a-f]{64})+)")


def _locked(path: Path) -> dict[str, str]:
    """Hashes by package and version."""
    text = path.read_text().replace(" \\\n", " ")
    lines = [re.sub(r" +", " ", line) for line in text.splitlines() if line and not line.startswith("#")]
    found = [PINNED.fullmatch(line) for line in lines]
    assert [line for line, match in zip(lines, found, strict=True) if match is None] == []
    return {match[1]: match[3] for match in found if match is not None}


@pytest.mark.parametrize("name", LOCKS)
def test_every_dependency_is_pinned_with_its_hashes(root: Path, name: str) -> None:
    locked = _locked(root / name)
    assert locked
    assert locked.items() <= _locked(root / "requirements.lock").items()


@pytest.mark.parametrize(("file", "commands"), [("scripts/setup.sh", 2), ("Dockerfile", 3)])
def test_packages_of_others_are_installed_by_their_hashes(root: Path, file: str, commands: int) -> None:
    lines = [line for line in (root / file).read_text().splitlines() if "pip install" in line and " -r " in line]
    assert len(lines) == commands
    assert [line for line in lines if "--require-hashes" not in line] == []


def test_names_of_internal_topics_are_made_and_known_in_one_module(root: Path) -> None:
    """No other module writes how their names end, or compares with the name of a role."""
    roles = ("metadata", "position", "changelog", "repartition")
    found = []
    for path in (*root.glob("runtime/streamapp/**/*.py"), *root.glob("operator/streamapp_operator/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())) if path.name != "internal_topics.py" else ():
            if isinstance(node, ast.Constant):
                said = str(node.value)
                wrong = said.endswith(tuple(f"-{role}" for role in roles))
            elif isinstance(node, ast.Compare):
                said = ast.unparse(node)
                wrong = ast.unparse(node.left).endswith("role") and any(repr(role) in said for role in roles)
            else:
                continue
            if wrong:
                found.append(f"{path.relative_to(root)}:{node.lineno}: {said}")
    assert found == []


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("eval(manifest)", "S307"),
        ("exec(manifest)", "S102"),
        ("import pickle\npickle.loads(manifest)", "S301"),
        ("import marshal\nmarshal.loads(manifest)", "S302"),
        ("import yaml\nyaml.load(manifest, yaml.Loader)", "S506"),
        ("import subprocess\nsubprocess.run(manifest, shell=True)", "S602"),
        ("import os\nos.system(manifest)", "S605"),
    ],
)
@pytest.mark.parametrize("package", ["runtime/streamapp", "operator/streamapp_operator"])
def test_nothing_does_what_data_says(root: Path, package: str, code: str, rule: str) -> None:
    """The linter finds nothing in our sources, and would find it: the rule is on."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "concise", "--no-cache"]
    source = f"manifest = input()\n{code}\n"
    where = ["--stdin-filename", f"{package}/planted.py", "-"]
    found = subprocess.run([*command, *where], cwd=root, input=source, capture_output=True, text=True, check=False)
    assert f" {rule} " in found.stdout, found.stdout + found.stderr
