# SPDX-License-Identifier: Apache-2.0
"""Lists the parts of an image as a CycloneDX 1.6 document: Debian's packages, Python's, and every jar.

Run where the image is built: `python3 sbom.py NAME > FILE`. The same content gives the same document, so it has neither
date nor serial number. Names of packages are package URLs (github.com/package-url).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

Component = dict[str, Any]
Coordinates = tuple[str, str, str]
"""Group, artifact and version, as Maven names a library."""
DPKG = Path("/var/lib/dpkg/status")
PYTHON = (*Path("/opt/packages/lib").glob("python3*/site-packages"), Path("/opt/streamapp"))
"""Folders with Python packages."""
EVERYTHING = (Path("/opt/packages"), Path("/opt/streamapp"))
_JAR_NAME = re.compile(r"(?P<name>.+?)-(?P<version>\d[^/]*)\.jar")


def document(name: str, components: list[Component]) -> dict[str, Any]:
    image = {"type": "container", "name": name, "bom-ref": name}
    ours = next((part for part in components if part.get("purl", "").startswith("pkg:pypi/streamapp@")), None)
    if ours is not None:
        image["version"] = ours["version"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": image},
        "components": components,
    }


def debian_packages(status: str) -> Iterator[Component]:
    """Those installed, out of dpkg's own list."""
    for paragraph in status.split("\n\n"):
        package = Parser().parsestr(paragraph, headersonly=True)
        if package.get("Status", "").endswith(" installed"):
            name, version, machine = package["Package"], package["Version"], package["Architecture"]
            yield _component(name, version, f"pkg:deb/debian/{name}@{quote(version)}?arch={machine}")


def python_packages(folders: tuple[Path, ...]) -> Iterator[Component]:
    for package in distributions(path=[str(folder) for folder in folders]):
        name = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
        component = _component(name, package.version, f"pkg:pypi/{name}@{quote(package.version)}")
        licence = _licence(package)
        yield component | ({"licenses": [licence]} if licence else {})


def jar(path: Path, where: str) -> Component:
    """One jar, by Maven's own word where there is any, else by its file's name; within it what was packed along."""
    found = list(dict.fromkeys((*_coordinates_within(path), *_coordinates_beside(path))))
    itself = next((at for at in found if path.name.startswith(f"{at[1]}-{at[2]}")), None)
    if itself is not None:
        component = _of_maven(*itself)
    else:
        match = _JAR_NAME.fullmatch(path.name)
        component = {"type": "library", "name": match["name"] if match else path.stem}
        component |= {"version": match["version"]} if match else {}
    packed = [_of_maven(*at) for at in found if at != itself]
    for part in packed:  # one library may be packed into several jars, and references are unique
        part["bom-ref"] = f"{where}#{part['purl']}"
    return {
        **component,
        "bom-ref": where,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "properties": [{"name": "streamapp:path", "value": where}],
        **({"components": packed} if packed else {}),
    }


def _coordinates_beside(path: Path) -> Iterator[Coordinates]:
    """By the list that Maven has made of the jars in this folder: `GROUP:ARTIFACT:jar:VERSION:...`, a line each."""
    names = path.with_name("dependencies.txt")
    for line in names.read_text().splitlines() if names.exists() else ():
        group, *rest = line.strip().split(":")
        if len(rest) >= 3 and path.name == f"{rest[0]}-{rest[2]}.jar":
            yield group, rest[0], rest[2]


def _coordinates_within(path: Path) -> Iterator[Coordinates]:
    """The coordinates of everything in a jar that Maven has built."""
    with zipfile.ZipFile(path) as opened:
        for name in opened.namelist():
            if PurePosixPath(name).name == "pom.properties" and name.startswith("META-INF/maven/"):
                lines = opened.read(name).decode(errors="replace").splitlines()
                properties = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
                values = [properties.get(key, "").strip() for key in ("groupId", "artifactId", "version")]
                if all(values):
                    yield values[0], values[1], values[2]


def _of_maven(group: str, artifact: str, version: str) -> Component:
    purl = f"pkg:maven/{quote(group)}/{quote(artifact)}@{quote(version)}"
    return {**_component(artifact, version, purl), "group": group}


def _component(name: str, version: str, purl: str) -> Component:
    return {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}


def _licence(package: Distribution) -> dict[str, Any] | None:
    fields = package.metadata.json
    if expression := fields.get("license_expression"):
        return {"expression": expression}
    name = str(fields.get("license", "")).strip()
    # Some put the whole text there.
    return {"license": {"name": name}} if name and "\n" not in name and len(name) < 100 else None


def main(name: str) -> None:
    # One is no library, but the order of the others (class_archive.py).
    jars = sorted(path for folder in EVERYTHING for path in folder.rglob("*.jar") if path.name != "classes.jar")
    components = [
        *sorted(debian_packages(DPKG.read_text()), key=lambda part: str(part["purl"])),
        *sorted(python_packages(PYTHON), key=lambda part: str(part["purl"])),
        *(jar(path, str(path)) for path in jars),
    ]
    json.dump(document(name, components), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(sys.argv[1])
