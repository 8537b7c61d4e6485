# SPDX-License-Identifier: Apache-2.0
"""The rows of each group with the highest values: of a stream, in windows, and of a table whose rows change."""

from __future__ import annotations

import json
import random
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lib.inprocess import App
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

NOON = 1_704_110_400_000
SECOND = 1000
MOST = 3
TOP = "top: {rows: 3, by: points}"
TOPOLOGY = f"""
  - name: plays
    stream: {{topic: $T-plays, value: {{format: json, schema: "game STRING, player STRING, points INT"}}}}
  - {{name: best, from: plays, groupBy: [game], {TOP}}}
  - {{name: best-out, to: {{topic: $T-best}}}}
  - {{name: hourly, from: plays, groupBy: [game], {TOP}, window: {{hopping: 20s, every: 10s}}, grace: 1h}}
  - {{name: hourly-out, to: {{topic: $T-hourly}}}}
  - {{name: rounds, from: plays, groupBy: [game], {TOP}, window: {{session: 3s}}, grace: 1h}}
  - {{name: rounds-out, to: {{topic: $T-rounds}}}}
  - {{name: latest, from: plays, toTable: {{}}}}
  - {{name: leaders, from: latest, groupBy: [game], top: {{rows: 3, by: "-points"}}}}
  - {{name: leaders-out, to: {{topic: $T-leaders}}}}
"""
Play = tuple[str, dict[str, Any], int]
"""Key, value and time."""


def played(seed: int, since: int) -> list[Play]:
    rng = random.Random(seed)
    found = []
    for i in range(150):
        value = {"game": rng.choice("xyz"), "player": f"p{rng.randrange(40)}", "points": rng.choice((None, *range(12)))}
        at = since + i * SECOND + rng.choice((0, 0, -4, -25)) * SECOND
        found.append((value["player"], value, at))
    return found


def first(plays: Iterable[Mapping[str, Any]], sign: int = 1) -> list[int]:
    """The points of the first rows. The order of equal rows is not defined."""
    return sorted((sign * play["points"] for play in plays if play["points"] is not None), reverse=True)[:MOST]


def told(app: App, topic: str, sign: int = 1) -> dict[Any, list[int]]:
    """The table that a topic folds to: the points of each group's rows, which are in order."""
    found = {}
    for key, row in app.table(topic).items():
        rows = row["top"] or []
        assert all(entry.keys() == {"player", "points"} for entry in rows)
        points = [sign * entry["points"] for entry in rows]
        assert points == sorted(points, reverse=True)
        found[key] = points
    return found


def sessions(plays: list[Play]) -> dict[str, list[int]]:
    """Sessions by game, start and end; each record within 3 s of one of its session."""
    found = {}
    by_game: dict[str, list[Play]] = defaultdict(list)
    for play in sorted(plays, key=lambda play: play[2]):
        by_game[play[1]["game"]].append(play)
    for game, of_game in by_game.items():
        session: list[Play] = []
        for place, play in enumerate(of_game):
            session.append(play)
            if place + 1 == len(of_game) or of_game[place + 1][2] - play[2] > 3 * SECOND:
                found[f"{game} {session[0][2]} {play[2]}"] = first(value for _, value, _ in session)
                session = []
    return found


def windowed(key: str) -> str:
    parts = json.loads(key)
    start, end = (
        round(datetime.fromisoformat(parts[f"window_{edge}"]).timestamp() * 1000) for edge in ("start", "end")
    )
    return f"{parts['game']} {start} {end}"


@pytest.mark.timeout(300)
def test_the_rows_of_most_points(kafka: KafkaConfig, tmp_path: Path) -> None:
    """In two runs; the second goes on with the state in the changelogs."""
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("plays")
    plays: list[Play] = []
    for run in range(2):
        more = played(run, NOON + run * 100 * SECOND)
        app.send("plays", *more)
        plays += more
        if run == 1:
            shutil.rmtree(tmp_path / app.prefix)
        app.run()
        games, hours, latest = defaultdict(list), defaultdict(list), {}
        for key, value, at in plays:
            games[value["game"]].append(value)
            latest[key] = value
            for start in range(at // 10_000 * 10_000 - 10_000, at + 1, 10_000):
                hours[f"{value['game']} {start} {start + 20_000}"].append(value)
        assert told(app, "best") == {game: first(values) for game, values in games.items()}
        found = {windowed(key): points for key, points in told(app, "hourly").items()}
        assert found == {window: first(values) for window, values in hours.items()}
        assert {windowed(key): points for key, points in told(app, "rounds").items()} == sessions(plays)
        of_latest = {game: [v for v in latest.values() if v["game"] == game] for game in games}
        assert told(app, "leaders", -1) == {game: first(values, -1) for game, values in of_latest.items()}
    assert any(len(points) < MOST for points in told(app, "hourly").values())


def test_the_first_of_equal_rows_stay(kafka: KafkaConfig, tmp_path: Path) -> None:
    app = App(kafka, tmp_path, "\n".join(TOPOLOGY.splitlines()[:5]))
    app.create("plays")
    for run in range(2):
        names = [f"p{run * 4 + i}" for i in range(4)]
        app.send("plays", *((name, {"game": "x", "player": name, "points": 7}, NOON) for name in names))
        app.run()
        assert {row["player"] for row in app.table("best")["x"]["top"]} == {"p0", "p1", "p2"}
