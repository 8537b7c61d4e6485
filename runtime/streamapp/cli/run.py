# SPDX-License-Identifier: Apache-2.0
"""`streamapp run`."""

from __future__ import annotations

import argparse

HELP = DESCRIPTION = EXAMPLE = "x"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    return None


def run(options: argparse.Namespace) -> int:
    return 0
