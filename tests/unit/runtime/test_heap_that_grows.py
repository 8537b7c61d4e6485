# SPDX-License-Identifier: Apache-2.0
"""A heap grows with the data that lives in it: a real JVM with the runtime's options, and a program that keeps more
than the heap's first size."""

import subprocess
from pathlib import Path

from streamapp.spark.session import Place, heap_options

PROGRAM = Path(__file__).parents[2] / "jvm" / "LiveData.java"


def collections(options: str, kept_mb: int, wasted_mb: int = 4000) -> dict[str, int]:
    """The number of collections of the old generation that stopped a program, and of those of the young one alone."""
    said = subprocess.run(
        ["java", *options.split(), "-Xmx2g", str(PROGRAM), str(kept_mb), str(wasted_mb)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout
    return {name: int(count) for name, count in (line.split() for line in said.splitlines())}


def test_that_outgrows_its_first_size_is_not_collected_all_the_time() -> None:
    place = Place("local[2]")
    found = collections(heap_options(place.first_memory, place.memory), kept_mb=500)
    assert found["young"] > 20, "what is thrown away goes through the young generation"
    assert found["old"] < 5


def test_in_a_pod_is_all_there_from_the_start() -> None:
    found = collections(heap_options(None, "2g"), kept_mb=500)
    assert found["young"] > 5
    assert found["old"] < 5
