# SPDX-License-Identifier: Apache-2.0
"""The packages that an image needs, out of pyproject.toml, one a line: `requirements.py runtime|operator`.

The operator compiles manifests and talks to Kubernetes and Kafka, but runs no Spark: it goes without what only Spark
needs, three quarters of the whole.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ONLY_FOR_SPARK = {"numpy", "pandas", "pyarrow", "pyspark"}


def requirements(image: str, project: Path) -> list[str]:
    """Raises ValueError for an image that there is not."""
    table = tomllib.loads(project.read_text())["project"]
    everything: list[str] = table["dependencies"]
    if image == "runtime":
        return everything
    if image == "operator":
        needed = [line for line in everything if re.split(r"[^\w.-]", line)[0] not in ONLY_FOR_SPARK]
        return [*needed, *table["optional-dependencies"]["operator"]]
    raise ValueError(f"there is no image {image!r}, only runtime and operator")


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1], Path(sys.argv[2]))))
