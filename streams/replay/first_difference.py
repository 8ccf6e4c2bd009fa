"""The input that a difference comes from.

The journal records the results of a batch, not of each of its inputs. So the batch is applied again
input by input, which shows for every output and row of the replay which input made it; a recorded
decision shows by its `as_of` after which input it was made, and a dead letter names its input. That
is certain.

A row that both sides have changed is less so: the replay shows which input wrote last what differs
in it, but on the recorded side a later input may have. So such an input counts only if the first
certain one cannot explain the row: it was applied, and writes no row of that kind. Two changes in
one batch of which the later one hides the earlier cannot be distinguished; then the later one is
named.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from schemas.storage.tables import kind_of_key
from streams.replay.diff import NOTHING, PathDifference, at, compare, parsed
from streams.stage.dead_letters import DEAD_LETTERS_TOPIC
from streams.stage.records import InputRecord, OutputRecord, RowChange, Stage, StageResult


@dataclass(frozen=True, slots=True)
class Effect:
    """The results of inputs."""

    outputs: list[OutputRecord] = field(default_factory=list)
    dead_letters: list[OutputRecord] = field(default_factory=list)
    rows: dict[str, bytes | None] = field(default_factory=dict)

    @classmethod
    def of(cls, outputs: Iterable[OutputRecord], rows: Iterable[RowChange]) -> "Effect":
        """Separate outputs from dead letters, which a batch keeps in one list."""
        answer = cls(rows={row.key: row.value for row in rows})
        for output in outputs:
            dead = output.topic == DEAD_LETTERS_TOPIC
            (answer.dead_letters if dead else answer.outputs).append(output)
        return answer


def effect(result: StageResult) -> Effect:
    """What a stage has answered."""
    return Effect.of((*result.outputs, *result.dead_letters), result.rows)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One output, dead letter or row that differs."""

    kind: str
    """output, dead letter or row."""
    place: int | str
    """Number among the batch's outputs or dead letters, from 0; key of a row."""
    recorded: Any
    """As the journal has it, read from JSON; `NOTHING` if it has none."""
    replayed: Any
    """As the replay gives it."""

    @property
    def paths(self) -> list[PathDifference]:
        """Where the two differ."""
        return compare(self.recorded, self.replayed)


def mismatches(recorded: Effect, replayed: Effect) -> list[Mismatch]:
    """Everything that is not equal, byte for byte; the order of rows means nothing."""
    found = [
        Mismatch(kind, number, _readable(one), _readable(other))
        for kind, left, right in (
            ("output", recorded.outputs, replayed.outputs),
            ("dead letter", recorded.dead_letters, replayed.dead_letters),
        )
        for number, (one, other) in enumerate(zip_longest(left, right))
        if one != other
    ]
    for key in {**recorded.rows, **replayed.rows}:
        one_row, other_row = recorded.rows.get(key, NOTHING), replayed.rows.get(key, NOTHING)
        if one_row != other_row:
            found.append(Mismatch("row", key, _row(one_row), _row(other_row)))
    return found


def find_culprit(
    stage: Stage,
    before: Mapping[str, bytes],
    applied: Sequence[InputRecord],
    found: Sequence[Mismatch],
) -> InputRecord | None:
    """The first input whose effect differs; none if no input of several has made what differs.

    Args:
        stage: as it was before the batch; the inputs are applied to it.
        before: its rows.
        applied: inputs of the batch, in order.
        found: what differs.
    """
    if len(applied) == 1:
        return applied[0]
    steps = [effect(stage.apply([record])) for record in applied]
    makers = {
        "output": [index for index, step in enumerate(steps) for _ in step.outputs],
        "dead letter": [index for index, step in enumerate(steps) for _ in step.dead_letters],
    }
    certain: list[int] = []
    possible: list[tuple[int, str]] = []
    touched: list[int] = []
    for mismatch in found:
        if isinstance(mismatch.place, int):
            certain += makers[mismatch.kind][mismatch.place : mismatch.place + 1]
            certain += _recorded_maker(mismatch, applied)
            continue
        row, kind = mismatch.place, kind_of_key(mismatch.place)
        writers = [index for index, step in enumerate(steps) if row in step.rows]
        if mismatch.recorded is NOTHING:
            certain += writers[:1]
        else:
            touched += writers[-1:]
            possible += [(i, kind) for i in _changed(mismatch, row, steps, before.get(row))[-1:]]
    if certain:
        first = min(certain)
        explains = set(map(kind_of_key, steps[first].rows))
        if not steps[first].dead_letters:
            certain += [index for index, kind in possible if kind not in explains]
    indices = certain or [index for index, _ in possible] or touched
    return applied[min(indices)] if indices else None


def _recorded_maker(mismatch: Mismatch, applied: Sequence[InputRecord]) -> list[int]:
    """Index of the input after which the recorded side says that it was made."""
    if mismatch.kind == "dead letter":
        named = [at(mismatch.recorded, ("value", name)) for name in ("topic", "offset")]
        return [i for i, record in enumerate(applied) if [record.topic, record.offset] == named][:1]
    offsets = ("value", "as_of", "offsets")
    known = [
        index
        for index, record in enumerate(applied)
        if isinstance(last := at(mismatch.recorded, (*offsets, record.topic)), int)
        and record.offset <= last
    ]
    return known[-1:]


def _changed(
    mismatch: Mismatch, row: str, steps: Sequence[Effect], before: bytes | None
) -> list[int]:
    """Indices of the inputs that changed, within a row, what differs in the end."""
    value = parsed(before) if before is not None else None
    paths = [difference.path for difference in mismatch.paths]
    changed: list[int] = []
    for index, step in enumerate(steps):
        newer = _row(step.rows.get(row, NOTHING))
        if newer is not NOTHING:
            if any(at(newer, path) != at(value, path) for path in paths):
                changed.append(index)
            value = newer
    return changed


def _readable(output: OutputRecord | None) -> Any:
    if output is None:
        return NOTHING
    return {
        "topic": output.topic,
        "key": output.key,
        "timestamp_ms": output.timestamp_ms,
        "value": parsed(output.value),
    }


def _row(value: Any) -> Any:
    """A row, None if it is gone, `NOTHING` if it did not change."""
    return parsed(value) if isinstance(value, bytes) else value
