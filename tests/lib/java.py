# SPDX-License-Identifier: Apache-2.0
"""Java processes of tests live for a minute: the optimizing compiler costs them more than it saves.

On two cores a test of five such processes takes half the processor time with the first compiler alone. Benchmarks do
not use this.
"""

from __future__ import annotations

JAVA_OPTIONS = "JAVA_TOOL_OPTIONS"
"""The environment variable from which every Java process takes options."""
SHORT_LIVED = "-XX:TieredStopAtLevel=1"
