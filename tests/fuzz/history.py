"""A history: records in the order applied, and where a worker's batches end and it starts again.

Records are stored as bytes and know nothing of each other, so a history from which some are removed
is a history again: that is what makes a failing one short.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

from streams.stage.records import InputRecord

StageName = Literal["cluster", "aggregate"]
STAGES: tuple[StageName, ...] = ("cluster", "aggregate")


class Cut(IntEnum):
    """What a worker does after a record."""

    NONE = 0
    """Its batch goes on."""
    BATCH = 1
    """Its batch ends."""
    RESTART = 2
    """Its batch ends, and another worker goes on from what was written."""


@dataclass(frozen=True, slots=True)
class Step:
    """One record, and what comes after it."""

    record: InputRecord
    cut: Cut = Cut.NONE


@dataclass(frozen=True, slots=True)
class History:
    """What one stage reads."""

    stage: StageName
    seed: int
    """What it was made from."""
    steps: tuple[Step, ...]


def save(path: Path, history: History, failure: str = "") -> None:
    """Write a history as JSON lines: a head, then one line a record."""
    head = {"stage": history.stage, "seed": history.seed, "failure": failure}
    lines = [json.dumps(head), *(json.dumps(_line(step)) for step in history.steps)]
    path.write_text("\n".join(lines) + "\n")


def load(path: Path) -> History:
    """Read what `save` wrote."""
    head, *lines = path.read_text().splitlines()
    of = json.loads(head)
    return History(of["stage"], of["seed"], tuple(_steps(map(json.loads, lines))))


def _line(step: Step) -> dict[str, Any]:
    record = step.record
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "key": _text(record.key),
        "value": _text(record.value),
        "timestamp_ms": record.timestamp_ms,
        "cut": step.cut.name,
    }


def _steps(lines: Iterable[dict[str, Any]]) -> Iterable[Step]:
    for line in lines:
        record = InputRecord(
            line["topic"],
            line["partition"],
            line["offset"],
            _bytes(line["key"]),
            _bytes(line["value"]),
            line["timestamp_ms"],
        )
        yield Step(record, Cut[line["cut"]])


def _text(value: bytes | None) -> Any:
    """Text where it is some, so that the file can be read; else base64."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
