# SPDX-License-Identifier: Apache-2.0
"""A query's stack trace becomes one line, the right exit code, and the decision whether to try again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lib.traces import LOST_RECORDS
from streamapp.cli.driver import _leave_word
from streamapp.spark.failure import diagnose, of_objection
from streamapp_operator.driver.pods import driver_state
from streamapp_operator.driver.probes import failed_probe, may_have_failed_a_probe
from streamapp_operator.driver.restart_budget import BUDGETS

BAD = (
    "Job aborted due to stage failure: Task 0 failed 4 times: org.apache.spark.SparkRuntimeException: "
    "[USER_RAISED_EXCEPTION] BAD_RECORD node 'in': topic t, partition 0, offset 7: the value cannot be read as json: x "
    "SQLSTATE: P0001\n\tat org.apache.spark"
)
# Spark prints plans, and a plan holds the text of every expression: an error's name in it was not raised.
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
        ("x.RefusedTimeException: topic 't' does not take a record\n at", 1, False, "topic 't' does not"),
        ("Some data may have been lost because they are not available in Kafka any more", 3, False, "gone (retention"),
        (LOST_RECORDS, 3, False, "are gone in topic text-lines, partition 1, among offsets 3 to 5 (retention passed"),
        ("y.UnknownTopicOrPartitionException: This server does not\n at", 1, True, "does not exist any more"),
        (
            "Caused by: x.TransactionalIdAuthorizationException: Transactional Id authorization failed.\n at",
            3,
            True,
            "Write on transactional-ids that begin with 'shop/'; allow it",
        ),
        ("x.TopicAuthorizationException: Not authorized to access topics: [t]\n at", 3, True, "topics: [t]; allow it"),
        ("x.SaslAuthenticationException: invalid credentials\n at", 3, True, "does not let the app in: invalid cred"),
        ("x\nCaused by: y.TimeoutException: no answer\n at", 3, True, "y.TimeoutException: no answer"),
        (
            "x.OverdueTransactionException: partition 0: … raise the brokers' transaction.max.timeout.ms\n at",
            3,
            True,
            "sub-topology 'part': partition 0: …",
        ),
    ],
)
def test_each_kind_of_failure(trace: str, exit_code: int, retriable: bool, words: str) -> None:
    failure = diagnose("part", trace, "shop")
    assert (failure.error.exit_code, failure.retriable) == (exit_code, retriable)
    assert words in str(failure.error)
    assert "\n" not in str(failure.error)


LOG = """26/01/01 10:00:00 INFO SparkContext: Running Spark
Exception in thread "main" java.lang.IllegalStateException: no disk
\tat org.apache.spark.Error.main(Main.scala:1)
Caused by: java.io.IOException: No space left on device
26/01/01 10:00:01 WARN NativeCodeLoader: an Exception of no weight
26/01/01 10:00:02 WARN Utils: Set SPARK_LOCAL_IP
"""


@pytest.mark.parametrize(
    ("code", "log", "words"),
    [
        (1, LOG, "code 1 (Error): Caused by: java.io.IOException: No space left on device"),
        (1, "26/01/01 10:00:02 WARN Utils: Set SPARK_LOCAL_IP", "code 1 (Error)"),
        (
            137,
            "26/01/01 10:00:02 WARN Utils: an Error",
            "code 137 (it was killed: it did not end in time after a failed probe, or its node ran out of memory)",
        ),
        (2, "usage: streamapp\nstreamapp: error: no such option", "code 2 (Error): streamapp: error: no such option"),
    ],
)
def test_a_driver_that_left_no_word_ended_of_the_error_in_its_log(code: int, log: str, words: str) -> None:
    ended = {"terminated": {"exitCode": code, "reason": "Error", "message": log}}
    container = {"name": "driver", "restartCount": 1, "state": {"running": {}}, "lastState": ended}
    pod = {"metadata": {"name": "p"}, "status": {"phase": "Running", "containerStatuses": [container]}}
    assert driver_state(pod).error == f"the driver ended with {words}"
    assert driver_state(pod).cause == "Infrastructure"


SIDECAR = {"name": "agent", "restartCount": 7, "state": {"terminated": {"exitCode": 1, "message": "Other: not ours"}}}
"""A container of a user's template. Kubernetes lists it first, by its name."""


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        (BAD, "DataError"),
        (PLAN, "CodeError"),
        ("x.OversizedRecordException: a record for topic 't' has 9 bytes\n at", "DataError"),
        ("x.y.UserCodeError: node 'n': function 'm:f': ValueError: " + 5_000 * "x" + "\n\n at", "CodeError"),
        pytest.param(f"x.UserCodeError: node 'n': function 'm:f': {5_000 * 'x'}\n\n at", "CodeError", id="long"),
        (LOST_RECORDS, "DataError"),
        ("x.IncompatibleStateException: store 's': changelog c\n at", "InputError"),
        ("another runtime of application 'a' has taken over: this one stops\n at", "Infrastructure"),
        ("x\nCaused by: y.TimeoutException: no answer\n at", "Infrastructure"),
        ("x.PositionMismatchException: changelog c holds version 3\n at", "StateLost"),
    ],
)
def test_the_operator_reads_what_a_driver_ended_of(trace: str, cause: str, tmp_path: Path) -> None:
    """The cause goes from the error, through the file that Kubernetes keeps, to the operator's count."""
    error = diagnose("part", trace, "shop").error
    _leave_word(tmp_path / "termination-log", error)
    ended = {"exitCode": error.exit_code, "message": (tmp_path / "termination-log").read_text()}
    driver = {"name": "driver", "restartCount": 1, "state": {}, "lastState": {"terminated": ended}}
    status = {"containerStatuses": [SIDECAR, driver]}
    state = driver_state({"metadata": {"uid": "1"}, "status": status})
    assert (state.cause, state.ended) == (cause, 1)
    assert str(error).startswith(state.error)
    assert len(state.error) > min(len(str(error)) - 1, 1_900)
    assert state.cause in BUDGETS


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("another runtime of application 'a' has taken over: this one stops", "Infrastructure"),
        ("internal topic 'a-c-changelog' was deleted and made anew: its content is lost", "StateLost"),
    ],
)
def test_why_a_driver_may_not_go_on(words: str, cause: str) -> None:
    error = of_objection(words)
    assert (error.cause, error.exit_code, str(error)) == (cause, 3, words)


def ended_pod(code: int, phase: str = "Running", reason: str = "Error") -> dict[str, Any]:
    end = {
        "exitCode": code,
        "reason": reason,
        "startedAt": "2026-01-01T10:00:00Z",
        "finishedAt": "2026-01-01T10:05:31Z",
    }
    container = {"name": "driver", "restartCount": 1, "state": {"running": {}}, "lastState": {"terminated": end}}
    return {"metadata": {"uid": "1"}, "status": {"phase": phase, "containerStatuses": [container]}}


def said(reason: str, message: str, at: str = "10:05:01") -> dict[str, str]:
    return {"reason": reason, "message": message, "lastTimestamp": f"2026-01-01T{at}Z"}


REFUSED = said("Unhealthy", 'Startup probe failed: Get "http://10.0.0.5:8080/healthz": connection refused')
KILLED = said("Killing", "Container driver failed startup probe, will be restarted")


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([REFUSED, KILLED], 'its startup probe failed: Get "http://10.0.0.5:8080/healthz": connection refused'),
        ([KILLED], "its startup probe failed"),
        ([REFUSED], ""),  # it got over it
        ([said("Killing", "Stopping container driver")], ""),
        ([said("Killing", "Container agent failed liveness probe, will be restarted")], ""),
        ([said("Killing", KILLED["message"], "09:59:59")], ""),  # of an earlier end
        (
            [REFUSED, said("Unhealthy", "Liveness probe failed: timeout"), said("Killing", KILLED["message"])],
            "its startup probe failed",
        ),
    ],
)
@pytest.mark.parametrize("code", [0, 137, 143])
def test_a_driver_that_failed_a_probe_is_named_so(events: list[dict[str, str]], words: str, code: int) -> None:
    pod = ended_pod(code)
    assert may_have_failed_a_probe(pod)
    assert failed_probe(pod, events) == words
    if words:
        state = driver_state(pod, words)
        assert (state.error, state.cause) == (f"the driver was ended: {words}", "Infrastructure")


@pytest.mark.parametrize(
    "pod", [ended_pod(1), ended_pod(0, "Succeeded"), ended_pod(137, reason="OOMKilled")], ids=["1", "done", "memory"]
)
def test_nobody_asks_for_the_events_of_other_ends(pod: dict[str, Any]) -> None:
    assert not may_have_failed_a_probe(pod)
