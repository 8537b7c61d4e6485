# SPDX-License-Identifier: Apache-2.0
"""Why a query has stopped, in one line, and whether trying again can help."""

from __future__ import annotations

import re
from dataclasses import dataclass

from streamapp.errors import CodeError, DataError, InputError, LossError, RunError, StateLost, StreamAppError
from streamapp.kafka.access import NotAllowed
from streamapp.succession import WAYS_OUT

# The JVM side's own exceptions: the class name in a stack trace, and the error that the app's user gets for it.
_KNOWN: dict[str, type[StreamAppError]] = {
    "ForeignOwnerException": InputError,
    "GroupTooLargeException": DataError,
    "IncompatibleStateException": InputError,
    "OversizedRecordException": DataError,
    "PositionMismatchException": StateLost,
    "RefusedTimeException": DataError,
}
# The text of the expression also stands in plans that Spark prints: only the raised error counts. If the error was
# thrown in a query's own thread, Spark passes on its message without its class.
_TAKEN_OVER = re.compile(r"another runtime of application '[^']*' has taken over: this one stops")
_OVERDUE = re.compile(r"OverdueTransactionException: (.*)")
_REFUSED = re.compile(
    r"(TransactionalIdAuthorization|TopicAuthorization|GroupAuthorization|SaslAuthentication|SslAuthentication)"
    r"Exception: (.*)"
)
_BAD_RECORD = re.compile(r"\[USER_RAISED_EXCEPTION\] BAD_RECORD (node .*?)(?: SQLSTATE|\n|$)", re.DOTALL)
_USER_FUNCTION = re.compile(r"UserCodeError: (node '.*)")
_STATE_SCHEMA = re.compile(r"\[STATE_STORE_(KEY|VALUE)_SCHEMA_NOT_COMPATIBLE\]")
_DATA_LOSS = re.compile(r"(KAFKA_DATA_LOSS|Some data may have been lost|OffsetOutOfRange|offset was changed from)")
_PARTITION = r"(?P<topic>\S+)-(?P<partition>\d+)"
# Spark breaks lines anywhere.
_LOST_AT = tuple(
    re.compile(text.replace(" ", r"\s+"))
    for text in (
        rf"records in offset \[(?P<first>\d+), (?P<end>\d+)\) for topic partition {_PARTITION}",
        rf"Added partition {_PARTITION} starts from (?P<end>\d+) instead of 0",
        rf"Starting offset for {_PARTITION} was (?P<first>\d+) but consumer reset",
        rf"Partition {_PARTITION} offset was changed from (?P<first>\d+) to",
        r"(?:partitions|Partitions) (?:Hash)?Set\((?P<partitions>[^)]+)\)\.? (?:They may )?have been deleted",
    )
)
_USER_CODE = re.compile(r"\[([A-Z_]+(?:\.[A-Z_]+)?)\] (.*?)(?: SQLSTATE|\n|$)", re.DOTALL)
# Spark's error conditions that come from a user's expression meeting data it cannot take.
_DATA_CONDITIONS = (
    "ARITHMETIC_OVERFLOW",
    "CANNOT_PARSE_TIMESTAMP",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "INVALID_ARRAY_INDEX",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "USER_RAISED_EXCEPTION",
)


@dataclass(frozen=True)
class Failure:
    """A query's end."""

    error: StreamAppError
    retriable: bool
    tries: int = 10
    """The most tries to start again at the same epoch, where a start may be tried again."""


def trace_of(error: BaseException) -> str:
    """All that is known of a query's exception: its own words, and the JVM's stack traces with their causes.

    Spark's words alone name only the step that failed ("An error occurred during loading state").
    """
    parts, current = [str(error)], error
    while (cause := getattr(current, "_cause", None)) is not None and len(parts) < 10:
        parts += [str(cause), str(getattr(cause, "_stackTrace", None) or "")]
        current = cause
    return "\n".join(parts)


def diagnose(subtopology: str, trace: str, application_id: str) -> Failure:
    """The failure behind a query's exception, whose text with all stack traces is `trace`."""
    refused = _REFUSED.search(trace)
    if refused:
        return _refused(subtopology, refused, application_id)
    bad = _BAD_RECORD.search(trace)
    if bad:
        line = " ".join(bad[1].split())
        return Failure(DataError(f"{line}; send it elsewhere with onBadRecord: {{deadLetter: TOPIC}}, or Drop"), False)
    function = _USER_FUNCTION.search(trace)
    if function:
        return Failure(CodeError(function[1].strip()), False)
    taken_over = _TAKEN_OVER.search(trace)
    if taken_over:
        return Failure(RunError(taken_over[0]), False)
    for name, error in _KNOWN.items():
        found = re.search(rf"{name}: (.*)", trace)
        if found:
            return Failure(error(found[1].strip()), False)
    overdue = _OVERDUE.search(trace)
    if overdue:  # before the names of Kafka's settings are looked for, as it names one
        return Failure(RunError(f"sub-topology '{subtopology}': {overdue[1].strip()}"), True)
    if "InvalidTxnTimeoutException" in trace or "transaction.max.timeout.ms" in trace:
        return Failure(
            InputError(
                "spec.transactionTimeout is longer than this Kafka allows; make it shorter, or raise the broker's "
                "transaction.max.timeout.ms"
            ),
            False,
        )
    if _DATA_LOSS.search(trace):
        return Failure(
            LossError(
                f"sub-topology '{subtopology}': records between the committed position and the topic's start are gone "
                f"{_lost_at(trace)}(retention passed, or the topic was deleted); "
                "set onSourceLoss: Earliest or Latest to go on without them"
            ),
            False,
        )
    if "UnknownTopicOrPartitionException" in trace:  # or a broker that does not know yet what the others know
        message = f"sub-topology '{subtopology}': a topic that it reads does not exist any more"
        return Failure(InputError(message), retriable=True, tries=3)
    if _STATE_SCHEMA.search(trace):
        message = f"store '{subtopology}' holds state that would mean something else; {WAYS_OUT}"
        return Failure(InputError(message), False)
    for condition, text in _USER_CODE.findall(trace):
        if condition.split(".")[0] in _DATA_CONDITIONS:
            return Failure(CodeError(f"sub-topology '{subtopology}': {condition}: {' '.join(text.split())}"), False)
    return Failure(RunError(f"sub-topology '{subtopology}': {_last_cause(trace)}"), True)


def of_objection(words: str) -> RunError:
    """The error that ends a driver that may not go on: another driver has taken over, or state is lost."""
    return RunError(words) if _TAKEN_OVER.search(words) else StateLost(words)


def _lost_at(trace: str) -> str:
    """Where records are gone, as far as Spark reports it: Spark met a gap in the offsets that it was about to read, and
    does not report how far the gap reaches.

    >>> _lost_at("Could not read records in offset [3, 6) for topic partition my-lines-0\\nwith consumer group g.")
    'in topic my-lines, partition 0, among offsets 3 to 5 '
    >>> _lost_at("Partition lines-1 offset was changed from 7 to 2.")
    'in topic lines, partition 1, from offset 7 on '
    >>> _lost_at("Partitions Set(lines-0, lines-1) have been deleted.")
    'in lines-0, lines-1 '
    """
    found = next((match for pattern in _LOST_AT if (match := pattern.search(trace))), None)
    if found is None:
        return ""
    at = {"first": "0", **found.groupdict()}
    if "partitions" in at:
        return f"in {at['partitions']} "
    offsets = f"among offsets {at['first']} to {int(at['end']) - 1}" if "end" in at else f"from offset {at['first']} on"
    return f"in topic {at['topic']}, partition {at['partition']}, {offsets} "


def _refused(subtopology: str, refusal: re.Match[str], application_id: str) -> Failure:
    """The failure of a query that Kafka refuses. A new try can help: somebody may be changing rights and passwords."""
    kind, words = refusal[1], refusal[2].strip()
    if kind.endswith("Authentication"):
        error = RunError(f"sub-topology '{subtopology}': Kafka does not let the app in: {words}")
        return Failure(error, retriable=True, tries=3)
    if kind.startswith("TransactionalId"):
        words = f"Write on transactional-ids that begin with '{application_id}/'"
    return Failure(NotAllowed(words), retriable=True, tries=3)


def _last_cause(trace: str) -> str:
    causes = re.findall(r"Caused by: (.*)", trace)
    # Py4J's first line names the call.
    text = re.sub(r"\AAn error occurred while calling [^\n]*\n: ", "", trace.strip())
    return (causes[-1] if causes else text.split("\n")[0])[:400]
