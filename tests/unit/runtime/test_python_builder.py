# SPDX-License-Identifier: Apache-2.0
"""The Python builder writes the same manifests as people do."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from streamapp import StreamBuilder
from streamapp.compile import compile_manifest
from streamapp.errors import InputError, ManifestError
from streamapp.formats import Format
from streamapp.manifest import Manifest, parse_manifest

EXAMPLES = Path(__file__).parents[3] / "examples"


def word_count() -> StreamBuilder:
    b = StreamBuilder("word-count")
    (
        b.stream("lines", topic="text-lines", value="text")
        .flat_map("words", word="split(lower(value), ' ')")
        .group_by("counts", "word")
        .aggregate(count="count(*)", store="word-counts")
        .to("out", topic="word-counts")
    )
    return b


def orders_payments() -> StreamBuilder:
    b = StreamBuilder("orders-payments")
    orders = b.stream(
        "orders", topic="orders", value=Format("json", "order_id STRING, customer STRING, amount DOUBLE")
    ).key_by("orders-by-id", "order_id")
    payments = b.stream(
        "payments", topic="payments", value={"format": "json", "schema": "order_id STRING, paid DOUBLE"}
    ).key_by("payments-by-id", "order_id")
    paid = orders.join(
        "paid-orders",
        payments,
        by=["order_id"],
        within="15 minutes",
        grace="1 minute",
        select={
            "customer": "`orders-by-id`.customer",
            "amount": "`orders-by-id`.amount",
            "paid": "`payments-by-id`.paid",
        },
    ).to("paid-orders-out", topic="paid-orders")
    paid.group_by("customer-totals", "customer").aggregate(orders="count(*)", paid="sum(paid)").to(
        "customer-totals-out", topic="customer-totals"
    )
    return b


def log_router() -> StreamBuilder:
    b = StreamBuilder("log-router")
    lines = (
        b.stream("log", topic="log-lines", value="text")
        .with_columns(
            "parsed",
            level="upper(regexp_extract(value, '(?i)\\\\b(debug|info|warn|error|fatal)\\\\b', 1))",
            line="trim(value)",
        )
        .filter("wanted", "level <> 'DEBUG' and length(line) > 0")
        .select("lines", level="level", line="line")
    )
    alarms, warnings, rest = lines.branch(
        "by-level", ("alarms", "level in ('ERROR', 'FATAL')"), ("warnings", "level = 'WARN'"), ("rest", None)
    )
    alarms.to("alarms-out", topic="log-alarms")
    warnings.to("warnings-out", topic="log-warnings")
    rest.select("rest-text", line="line").to("rest-out", topic="log-rest", value="text")
    return b


def page_views() -> StreamBuilder:
    b = StreamBuilder("page-views", on_bad_record={"deadLetter": "page-views-unreadable"})
    schema = "page STRING, user STRING, viewed_at TIMESTAMP, ms BIGINT"
    (
        b.stream("views", topic="page-views", value=Format("json", schema), timestamp="viewed_at")
        .filter("real-views", "page is not null and ms >= 100")
        .group_by("per-minute", "page")
        .window(tumbling="1 minute", grace="30s")
        .aggregate(views="count(*)", visitors="approx_count_distinct(user)", slowest_ms="max(ms)")
        .to("out", topic="page-views-per-minute")
    )
    return b


def click_sessions() -> StreamBuilder:
    b = StreamBuilder("click-sessions")
    schema = "user STRING, page STRING, clicked_at TIMESTAMP"
    (
        b.stream("clicks", topic="clicks", value=Format("json", schema), timestamp="clicked_at")
        .group_by("sessions", "user")
        .window(session="30 minutes", grace="1 minute")
        .aggregate(clicks="count(*)", pages="count(distinct page)", emit="final")
        .to("out", topic="clicks-per-session")
    )
    return b


def payment_risk() -> StreamBuilder:
    b = StreamBuilder("payment-risk", code={"path": "payment_risk", "configMapRef": {"name": "payment-risk"}})
    schema = "card STRING, country STRING, amount DOUBLE"
    payments = b.stream("payments", topic="payments", value=Format("json", schema))
    scored = payments.python("scored", "risk:score", schema="card STRING, risk DOUBLE, reasons ARRAY<STRING>")
    scored.to("scores-out", topic="payment-scores")
    (
        scored.group_by("per-card", "card")
        .window(tumbling="1 minute")
        .aggregate(risk="sum(risk)", payments="count(*)")
        .filter("risky", "risk >= 1")
        .to("alarms-out", topic="payment-alarms")
    )
    return b


EXAMPLES_IN_PYTHON = [word_count, orders_payments, log_router, page_views, click_sessions, payment_risk]


@pytest.mark.parametrize("make", EXAMPLES_IN_PYTHON)
def test_the_examples_in_python_are_the_examples_in_yaml(make: object) -> None:
    assert callable(make)
    built: Manifest = make().build()
    written = parse_manifest((EXAMPLES / f"{built.name}.yaml").read_text())
    assert compile_manifest(built) == compile_manifest(written)


@pytest.mark.parametrize("make", EXAMPLES_IN_PYTHON)
def test_the_yaml_it_writes_is_read_back(make: object) -> None:
    assert callable(make)
    built: Manifest = make().build()
    assert parse_manifest(built.to_yaml()) == built


def test_words_that_yaml_reads_otherwise_are_quoted() -> None:
    b = StreamBuilder("app")
    b.stream("on", topic="yes").select("no", {"on": "value", "1:30": "value"}).to("out", topic="2024-01-31")
    built = b.build()
    assert parse_manifest(built.to_yaml()) == built


def test_mistakes_are_found_when_it_is_built() -> None:
    b = StreamBuilder("app", max_parallelism=0)
    b.stream("in", topic="t").filter("x", "valu = 1").to("out", topic="t")
    with pytest.raises(ManifestError) as error:
        b.build()
    assert sorted((p.node or "", p.field or "") for p in error.value.problems) == [
        ("", "maxParallelism"),
        ("out", "to.topic"),
        ("x", "filter"),
    ]


def test_groups_keep_their_order_and_merges_their_names() -> None:
    b = StreamBuilder("app")
    one, two = b.stream("one", topic="a"), b.stream("two", topic="b")
    both = b.merge("both", one, two)
    both.group_by("t", "value", "key", day="date(timestamp)").window(hopping="2 days", every="1 day").aggregate(
        {"store": "count(*)"}, emit="final", store="s"
    )
    spec = b.build().to_object()["spec"]["topology"]
    assert spec[2:] == [
        {"name": "both", "merge": ["one", "two"]},
        {
            "name": "t",
            "from": "both",
            "groupBy": ["value", "key", {"day": "date(timestamp)"}],
            "aggregate": {"store": "count(*)"},
            "window": {"hopping": "2 days", "every": "1 day"},
            "emit": "final",
            "store": "s",
        },
    ]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"replicas": 0}, "replicas: 0 is not a whole number of 1 or more"),
        ({"port": 70_000}, "port: 70000 is not a port"),
        ({"heap": "much"}, "heap: 'much' is no size of memory"),
        ({"adopt": "nobody"}, "adopt: "),
        ({"close_windows": True}, "until_caught_up=True"),
        ({"bootstrap_servers": "kafka"}, "'kafka'"),
    ],
)
def test_a_run_is_refused_before_it_begins(settings: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        word_count().run(state_dir=tmp_path, **settings)


def test_a_run_checks_the_manifest() -> None:
    b = StreamBuilder("a")
    b.stream("lines", topic="t").filter("some", "nothing = 1").to("out", topic="o")
    with pytest.raises(ManifestError, match="node 'some'"):
        b.run()


def test_a_run_reads_modules_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    b = StreamBuilder("a", code={"path": "scoring.py"})
    b.stream("lines", topic="t").python("scored", "scoring:score", schema="score INT").to("out", topic="o")
    with pytest.raises(InputError, match=re.escape("code.path: there is no 'scoring.py'")):
        b.run()
    (tmp_path / "scoring.py").write_text("def scores(row): return row\n")
    with pytest.raises(ManifestError, match="module 'scoring' has no 'score'"):
        b.run()


def test_a_run_is_for_the_main_thread() -> None:
    with ThreadPoolExecutor(1) as beside, pytest.raises(InputError, match="main thread"):
        beside.submit(word_count().run).result()
