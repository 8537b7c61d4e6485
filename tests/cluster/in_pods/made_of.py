# SPDX-License-Identifier: Apache-2.0
"""Prints, as JSON, the contents of an image by its own SBOM, and how much of each kind is listed and found."""

import json
import subprocess
from collections import Counter
from pathlib import Path

document = json.loads(Path("/opt/sbom.cdx.json").read_text())
listed = Counter({"deb": 0, "pypi": 0, "maven": 0})
for component in document["components"]:
    kind = "maven" if "hashes" in component else component["purl"].split(":")[1].split("/")[0]
    listed[kind] += 1
debian = subprocess.run(["dpkg-query", "--show"], capture_output=True, text=True, check=True).stdout.splitlines()
python = [path for top in ("/opt/packages", "/opt/streamapp") for path in Path(top).rglob("*.dist-info")]
jars = [path for path in Path("/opt").rglob("*.jar") if not path.is_symlink() and path.name != "classes.jar"]
found = {"deb": len(debian), "pypi": len(python), "maven": len(jars)}
print(json.dumps({"listed": listed, "found": found, "purls": [c.get("purl") for c in document["components"]]}))
