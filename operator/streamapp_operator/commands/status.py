# SPDX-License-Identifier: Apache-2.0
"""`streamapp status`: an app of a cluster on one page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from streamapp_operator.commands.target import add_app, names_of_apps, target_of

HELP = "print the status of an app on a cluster"
DESCRIPTION = """Prints phase, executors, lag, epochs, conditions and the last error of a StreamApp.
Exit code 0 if it is Ready, else 1."""
EXAMPLE = """  streamapp status word-count -n shop"""
add_arguments = add_app
suggest = names_of_apps


def run(options: argparse.Namespace) -> int:
    with target_of(options) as target:
        body = target.app(options.name)
    print("\n".join(lines_of(body)))
    return 0 if is_ready(body) else 1


def is_ready(body: Mapping[str, Any]) -> bool:
    """Whether the app is Ready in the resource's current generation, and not only in an earlier one."""
    from streamapp_operator.crd.reading import status_in  # which loads the manifest's model

    ready = ("Ready", "True", body["metadata"]["generation"])
    conditions = status_in(body).get("conditions", ())
    return any((each["type"], each["status"], each.get("observedGeneration")) == ready for each in conditions)


def lines_of(body: Mapping[str, Any]) -> Iterator[str]:
    """The page. Pure, of the resource."""
    from streamapp_operator.crd.reading import status_in

    metadata, status = body["metadata"], status_in(body)
    yield f"{metadata['namespace']}/{metadata['name']}: {status.get('phase', 'not seen by an operator yet')}"
    if not status:
        return
    seen, wanted = status.get("observedGeneration", "?"), metadata["generation"]
    if seen != wanted:
        yield f"  generation  {wanted}; the lines below are about generation {seen}"
    yield f"  executors   {status.get('replicas', '?')} of {status.get('desiredReplicas', '?')}"
    if "total" in (lag := status.get("lag", {})):
        topics = ", ".join(f"{topic} {records}" for topic, records in sorted(lag.get("topics", {}).items()))
        yield f"  lag         {lag['total']} records" + (f": {topics}" if topics else "")
    for part in status.get("subTopologies", ()):
        watermark = f", watermark {part['watermark']}" if "watermark" in part else ""
        yield f"  {part['name']:<11} epoch {part.get('epoch', '?')}{watermark}"
    if progress := status.get("restore", {}).get("progress"):
        yield f"  restore     {progress}"
    yield from _run(status.get("run", {}))
    if status.get("restarts"):
        yield f"  restarts    {status['restarts']}"
    if "generation" in (plan := status.get("plan", {})):
        yield f"  last change generation {plan['generation']}: {plan.get('class', '?')}, {plan.get('outcome', '?')}"
    yield ""
    rows = [("CONDITION", "STATUS", "REASON", "MESSAGE")]
    rows += [(each["type"], each["status"], each["reason"], each["message"]) for each in status.get("conditions", ())]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        first, *more = row[3].split("\n")
        yield "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=False)) + f"  {first}"
        yield from (" " * (sum(widths) + 6) + line for line in more)
    if "message" in (error := status.get("lastError", {})):
        yield ""
        yield f"last error, {error.get('time', 'at an unknown time')}:"
        yield from (f"  {line}" for line in error["message"].splitlines())


def _run(run: Mapping[str, Any]) -> Iterator[str]:
    """The lines about the runs of an app that stops at the end of its input.

    >>> list(_run({"result": "Completed", "endedAt": "2024-01-31T12:00:00Z", "records": 5}))
    ['  last run    Completed at 2024-01-31T12:00:00Z, 5 records']
    """
    if "result" in run:
        when = f" at {run['endedAt']}" if "endedAt" in run else ""
        yield f"  last run    {run['result']}{when}" + (f", {run['records']} records" if "records" in run else "")
    if "nextAt" in run:
        yield f"  next run    {run['nextAt']}"
