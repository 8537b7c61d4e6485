# SPDX-License-Identifier: Apache-2.0
"""Events of the Nexmark benchmark: persons, auctions and bids, as lines for `streamapp produce --json`.

One of 50 events is a person, three are auctions and 46 are bids, and each event is a fixed time later than the one
before. Some sellers, auctions and bidders are hot, and are in a large part of the events. The same seed always gives
the same events.

    python examples/nexmark/events.py bids --events 100000 | streamapp produce nexmark-bids --json
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

PERSONS, AUCTIONS = 1, 3
"""The numbers of persons and auctions in each round of events. The rest are bids."""
ROUND = 50
FIRST = 1000
"""The first person's id, and the first auction's."""
BEGIN = datetime(2024, 1, 31, 23, 59, tzinfo=UTC)
"""The time of the first event: just before midnight, for the queries that go by days."""
HOT_SELLER, HOT_AUCTION, HOT_BIDDER = 4, 2, 4
"""One in so many events does not go to a hot one."""
HOT_EVERY = {"seller": 4, "auction": 100, "bidder": 100}
"""Every so many ids there is a hot one."""
OPEN_AUCTIONS = 100
"""So many are open at a time, more or less."""
ACTIVE_PERSONS = 1000
"""So many of the latest persons sell and bid."""
CATEGORIES = range(10, 15)
STATES = {"AZ": "Phoenix", "CA": "Los Angeles", "ID": "Boise", "OR": "Portland", "WA": "Seattle", "WY": "Cheyenne"}
NAMES = (
    ("Peter", "Paul", "Lucy", "Saul", "Vicky", "Kate"),
    ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Jones"),
)
CHANNELS = ("apple", "google", "facebook", "baidu")
OTHER_CHANNELS = 10_000
SIDE_ROWS = 500
Event = tuple[int, dict[str, Any]]
"""A key, and a value."""


class Market:
    """
    Args:
        seed: the seed of all random choices.
        gap: event time between two events.
    """

    def __init__(self, seed: int = 0, gap: timedelta = timedelta(milliseconds=10)) -> None:
        self._seed, self._gap = seed, gap

    def events(self, kind: str, count: int) -> Iterator[Event]:
        """The events of a kind among the first `count` events: `persons`, `auctions` or `bids`. For `side`, the rows of
        a table that no event changes."""
        if kind == "side":
            yield from ((key, {"value": f"side {key}"}) for key in range(SIDE_ROWS))
            return
        for number in range(count):
            place = number % ROUND
            found = "persons" if place < PERSONS else "auctions" if place < PERSONS + AUCTIONS else "bids"
            if found == kind:
                chance = random.Random(f"{self._seed}/{number}")
                yield getattr(self, f"_{kind[:-1]}")(number, chance)

    def _person(self, number: int, chance: random.Random) -> Event:
        person = self._last_person(number)
        name = " ".join(map(chance.choice, NAMES))
        state, city = chance.choice(list(STATES.items()))
        return person, {
            "id": person,
            "name": name,
            "emailAddress": f"{name.lower().replace(' ', '.')}@example.com",
            "creditCard": " ".join(f"{chance.randrange(10_000):04}" for _ in range(4)),
            "city": city,
            "state": state,
            "dateTime": self._time(number),
        }

    def _auction(self, number: int, chance: random.Random) -> Event:
        auction, first_bid = self._last_auction(number), _price(chance)
        open_for = OPEN_AUCTIONS * ROUND // AUCTIONS
        return auction, {
            "id": auction,
            "itemName": f"item {chance.randrange(1000)}",
            "description": _letters(chance, 20),
            "initialBid": first_bid,
            "reserve": first_bid + _price(chance),
            "dateTime": self._time(number),
            "expires": self._time(number + 1 + chance.randrange(2 * open_for)),
            "seller": self._some_person(number, chance, HOT_SELLER, HOT_EVERY["seller"]),
            "category": chance.choice(CATEGORIES),
        }

    def _bid(self, number: int, chance: random.Random) -> Event:
        last = self._last_auction(number) - FIRST
        auction = FIRST + (
            last // HOT_EVERY["auction"] * HOT_EVERY["auction"]
            if chance.randrange(HOT_AUCTION)
            else chance.randint(max(0, last - OPEN_AUCTIONS), last)
        )
        url = "/".join(("https://www.example.com", *(_letters(chance, 3) for _ in range(3)), "item.htm?query=1"))
        channel = chance.choice(CHANNELS)
        if not chance.randrange(2):
            channel_id = chance.randrange(OTHER_CHANNELS)
            channel = f"channel-{channel_id}"
            url += f"&channel_id={channel_id}" if channel_id % 10 else ""
        return auction, {
            "auction": auction,
            "bidder": self._some_person(number, chance, HOT_BIDDER, HOT_EVERY["bidder"]),
            "price": _price(chance),
            "channel": channel,
            "url": url,
            "dateTime": self._time(number),
            "extra": _letters(chance, 30),
        }

    def _some_person(self, number: int, chance: random.Random, hot: int, every: int) -> int:
        last = self._last_person(number) - FIRST
        if chance.randrange(hot):
            return FIRST + last // every * every
        return FIRST + chance.randint(max(0, last - ACTIVE_PERSONS), last)

    def _last_person(self, number: int) -> int:
        return FIRST + number // ROUND * PERSONS

    def _last_auction(self, number: int) -> int:
        """The id of the last auction so far. There is always one: bids come behind the auctions of their round."""
        return FIRST + number // ROUND * AUCTIONS + min(max(number % ROUND - PERSONS, 0), AUCTIONS - 1)

    def _time(self, number: int) -> str:
        return (BEGIN + number * self._gap).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _price(chance: random.Random) -> int:
    """A price in cents: as many prices from 1 to 10 as from 10 to 100, and so on up to a million."""
    return round(100 * 10 ** (6 * chance.random()))


def _letters(chance: random.Random, count: int) -> str:
    return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=count))


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints Nexmark events as lines for `streamapp produce TOPIC --json`.")
    parser.add_argument("kind", choices=("persons", "auctions", "bids", "side"))
    parser.add_argument("--events", type=int, default=100_000, help="of all kinds together (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="others give other events (default: %(default)s)")
    parser.add_argument("--gap", type=int, default=10, metavar="MS", help="between two events (default: %(default)s)")
    given = parser.parse_args()
    for key, value in Market(given.seed, timedelta(milliseconds=given.gap)).events(given.kind, given.events):
        print(json.dumps({"key": str(key), "value": value}))


if __name__ == "__main__":
    main()
