# SPDX-License-Identifier: Apache-2.0
"""`make demo`, as a newcomer sees it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "word_count_demo.py"


@pytest.mark.timeout(600)
def test_the_demo_ends_by_itself_with_every_count(tmp_path: Path) -> None:
    commands = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert str(DEMO.relative_to(ROOT)) in commands
    demo = subprocess.Popen(
        [sys.executable, DEMO], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said, _ = demo.communicate(timeout=500)
    finally:
        demo.terminate()  # it ends the processes that it has started
        demo.wait(60)
    assert demo.returncode == 0, said
    (left,) = re.findall(r"runtime killed \(SIGKILL .*\) while it was counting the other ([\d,]+) lines", said)
    assert int(left.replace(",", "")) > 0
    (restored,) = re.findall(r"before, ([\d,]+) changelog offsets were read", said)
    assert int(restored.replace(",", "")) > 0
    assert re.search(r"all [\d,]+ counts are exactly those of the text", said), said
    assert not (tmp_path / ".streamapp" / "demo" / "app" / "app.json").exists(), "something still runs"
