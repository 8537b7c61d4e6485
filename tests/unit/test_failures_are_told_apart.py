# SPDX-License-Identifier: Apache-2.0
"""A query's stack trace becomes one line, the right exit code, and the decision whether to try again."""

from __future__ import annotations

import pytest

from streamapp.spark.failure import diagnose

BAD = (
    "Job aborted due to stage failure: Task 0 failed 4 times: org.apache.spark.SparkRuntimeException: "
    "[USER_RAISED_EXCEPTION] BAD_RECORD node 'in': topic t, partition 0, offset 7: the value cannot be read as json: x "
    "SQLSTATE: P0001\n\tat org.apache.spark"
)
# Spark prints plans, and a plan holds the text of every expression: it is no error that was raised.
PLAN = "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n Filter raise_error(BAD_RECORD node 'in': topic )"


@pytest.mark.parametrize(
    ("trace", "exit_code", "retriable", "words"),
    [
        (BAD, 1, False, "node 'in': topic t, partition 0, offset 7"),
        (PLAN, 1, False, "DIVIDE_BY_ZERO: Division by zero."),
        ("another runtime of application 'a' has taken over: this one stops\n at", 3, False, "taken over"),
        ("x.ProducerFencedException: there is a newer producer\n at", 3, True, "newer producer"),
        ("x.PositionMismatchException: changelog c holds version 3\n at", 3, False, "holds version 3"),
        ("x.ForeignOwnerException: applicationId 'a' belongs to 'b'\n at", 1, False, "belongs to"),
        ("x.IncompatibleStateException: store 's': changelog c\n at", 1, False, "store 's'"),
        ("Caused by: x.OversizedRecordException: a record for topic 't' has 9 bytes\n at", 1, False, "'t' has 9"),
        ("An error occurred while calling z:x.begin.\n: y.Trouble: no disk\n\tat", 3, True, "part': y.Trouble: no"),
        ("x: (as configured by transaction.max.timeout.ms)\n at", 1, False, "spec.transactionTimeout is longer"),
        ("Some data may have been lost because they are not available in Kafka any more", 3, False, "onSourceLoss"),
        ("y.UnknownTopicOrPartitionException: This server does not\n at", 1, True, "does not exist any more"),
        ("x\nCaused by: y.TimeoutException: no answer\n at", 3, True, "y.TimeoutException: no answer"),
    ],
)
def test_each_kind_of_failure(trace: str, exit_code: int, retriable: bool, words: str) -> None:
    failure = diagnose("part", trace)
    assert (failure.error.exit_code, failure.retriable) == (exit_code, retriable)
    assert words in str(failure.error)
    assert "\n" not in str(failure.error)
