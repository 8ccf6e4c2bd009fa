"""A history: a list of events drawn from a seed.

An event is a number and a kind. Everything else that it needs (which cluster, which pod, how long)
comes from random numbers of its own, named by seed and number. So a history without some of its
events is a history again, and the remaining events draw what they drew before.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.histories import hostile_events, valid_events
from tests.histories.outside import FAULTS

#: Number of events: enough for migrations that time out and nodes that are held back.
LENGTH = 400

#: How often each event occurs that `run` applies itself.
_RUN_EVENTS = {
    "time passes": 30.0,
    "rows are compared": 0.7,
    "the journal is replayed": 0.7,
    "the watch sends full lists": 0.3,
}


class Event(NamedTuple):
    number: int
    kind: str


@dataclass(frozen=True)
class History:
    seed: int
    events: tuple[Event, ...]

    @cached_property
    def is_hostile(self) -> bool:
        """Records were written that are broken or not true, so the stage may know wrong things."""
        return any(event.kind in hostile_events.EVENTS for event in self.events)

    def get_random(self, purpose: object) -> Random:
        return Random(f"{self.seed} {purpose}")


def draw_history(seed: int, length: int = LENGTH) -> History:
    """Draw the history of a seed: its own mix of events, with or without faults and hostile events."""
    random = Random(f"history {seed}")
    frequencies = dict(_RUN_EVENTS)
    frequencies |= {kind: event[0] for kind, event in valid_events.EVENTS.items()}
    if random.random() < 0.7:
        frequencies |= {kind: fault.frequency for kind, fault in FAULTS.items()}
    if random.random() < 0.5:
        frequencies |= {kind: event[0] for kind, event in hostile_events.EVENTS.items()}
    kinds = list(frequencies)
    weights = [frequency * random.choice((0.3, 1, 1, 2)) for frequency in frequencies.values()]
    opening = [
        *["the policy changes"] * 3,
        *["a node joins"] * random.randint(2, 12),
        *["an owner changes"] * random.randint(1, 6),
        "time passes",
    ]
    rest = random.choices(kinds, weights, k=max(0, length - len(opening)))
    return History(seed, tuple(Event(*entry) for entry in enumerate([*opening, *rest])))


def save(path: Path, history: History, failure: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"failure": failure, "seed": history.seed, "events": history.events}
    path.write_text(json.dumps(document, indent=1) + "\n")


def load(path: Path) -> History:
    document = json.loads(path.read_text())
    return History(document["seed"], tuple(Event(*event) for event in document["events"]))
