"""Finds the input that causes a difference.

The journal has the results of a batch, not of each input. So the batch is applied again input by input,
which shows the input of every replayed output and row. A recorded decision shows its input by `as_of`, and
a dead letter names its input. These inputs are certain.

If both sides have changed a row, the replay shows the last input that changed the differing part, but the
recorded change may come from another input. So this input is not certain. It is considered only if the first
certain input cannot explain the row, because that input was applied and changes no row of this kind.

If an input hides the change of an earlier input in the same batch, the later input is reported.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from schemas.storage.tables import kind_of_key
from streams.replay.diff import NOTHING, PathDifference, compare, get, parse
from streams.stage.records import DEAD_LETTERS_TOPIC, InputRecord, OutputRecord, RowChange, Stage


@dataclass(frozen=True, slots=True)
class Effect:
    """The results of one or several inputs."""

    outputs: list[OutputRecord] = field(default_factory=list)
    dead_letters: list[OutputRecord] = field(default_factory=list)
    rows: dict[str, bytes | None] = field(default_factory=dict)

    @classmethod
    def of(cls, outputs: Iterable[OutputRecord], rows: Iterable[RowChange]) -> "Effect":
        """Return the effect; `outputs` includes dead letters."""
        effect = cls(rows={row.key: row.value for row in rows})
        for output in outputs:
            dead = output.topic == DEAD_LETTERS_TOPIC
            (effect.dead_letters if dead else effect.outputs).append(output)
        return effect


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An output, dead letter or row that differs."""

    kind: str
    """output, dead letter or row."""
    index_or_key: int | str
    """Index among the batch's outputs or dead letters, or key of a row."""
    recorded: Any
    """Recorded JSON value, or `NOTHING`."""
    replayed: Any
    """Replayed JSON value, or `NOTHING`."""

    @property
    def paths(self) -> list[PathDifference]:
        return compare(self.recorded, self.replayed)


def find_mismatches(recorded: Effect, replayed: Effect) -> list[Mismatch]:
    """Return all differences of bytes; the order of rows does not matter."""
    mismatches = [
        Mismatch(kind, number, _describe_output(recorded_output), _describe_output(replayed_output))
        for kind, recorded_outputs, replayed_outputs in (
            ("output", recorded.outputs, replayed.outputs),
            ("dead letter", recorded.dead_letters, replayed.dead_letters),
        )
        for number, (recorded_output, replayed_output) in enumerate(
            zip_longest(recorded_outputs, replayed_outputs)
        )
        if recorded_output != replayed_output
    ]
    for key in {**recorded.rows, **replayed.rows}:
        one_row, other_row = recorded.rows.get(key, NOTHING), replayed.rows.get(key, NOTHING)
        if one_row != other_row:
            mismatches.append(Mismatch("row", key, _parse_row(one_row), _parse_row(other_row)))
    return mismatches


def find_culprit(
    stage: Stage,
    before: Mapping[str, bytes],
    applied: Sequence[InputRecord],
    mismatches: Sequence[Mismatch],
) -> InputRecord | None:
    """Return the first input whose effect differs; None if it cannot be found.

    Args:
        stage: the stage before the batch; the inputs are applied to it.
        before: its rows.
        applied: inputs of the batch, in order.
        mismatches: all differences.
    """
    if len(applied) == 1:
        return applied[0]
    results = [stage.apply([record]) for record in applied]
    steps = [Effect.of(result.published, result.rows) for result in results]
    input_indexes = {
        "output": [index for index, step in enumerate(steps) for _ in step.outputs],
        "dead letter": [index for index, step in enumerate(steps) for _ in step.dead_letters],
    }
    certain: list[int] = []
    possible: list[tuple[int, str]] = []
    touched: list[int] = []
    for mismatch in mismatches:
        if isinstance(mismatch.index_or_key, int):
            certain += input_indexes[mismatch.kind][
                mismatch.index_or_key : mismatch.index_or_key + 1
            ]
            certain += _find_recorded_input(mismatch, applied)
            continue
        row, kind = mismatch.index_or_key, kind_of_key(mismatch.index_or_key)
        writers = [index for index, step in enumerate(steps) if row in step.rows]
        if mismatch.recorded is NOTHING:
            certain += writers[:1]
        else:
            touched += writers[-1:]
            possible += [
                (i, kind) for i in _find_changing_inputs(mismatch, row, steps, before.get(row))[-1:]
            ]
    if certain:
        earliest = min(certain)
        explains = set(map(kind_of_key, steps[earliest].rows))
        if not steps[earliest].dead_letters:
            certain += [index for index, kind in possible if kind not in explains]
    indices = certain or [index for index, _ in possible] or touched
    return applied[min(indices)] if indices else None


def _find_recorded_input(mismatch: Mismatch, applied: Sequence[InputRecord]) -> list[int]:
    """Return the index of the input that a recorded output names, as a list of at most one."""
    if mismatch.kind == "dead letter":
        topic_and_offset = [get(mismatch.recorded, ("value", name)) for name in ("topic", "offset")]
        return [
            i
            for i, record in enumerate(applied)
            if [record.topic, record.offset] == topic_and_offset
        ][:1]
    offsets = ("value", "as_of", "offsets")
    candidates = [
        index
        for index, record in enumerate(applied)
        if isinstance(newest := get(mismatch.recorded, (*offsets, record.topic)), int)
        and record.offset <= newest
    ]
    return candidates[-1:]


def _find_changing_inputs(
    mismatch: Mismatch, row: str, steps: Sequence[Effect], before: bytes | None
) -> list[int]:
    """Return the indexes of the inputs that changed the differing part of a row."""
    value = parse(before) if before is not None else None
    paths = [difference.path for difference in mismatch.paths]
    changed: list[int] = []
    for index, step in enumerate(steps):
        newer = _parse_row(step.rows.get(row, NOTHING))
        if newer is not NOTHING:
            if any(get(newer, path) != get(value, path) for path in paths):
                changed.append(index)
            value = newer
    return changed


def _describe_output(output: OutputRecord | None) -> Any:
    if output is None:
        return NOTHING
    return {
        "topic": output.topic,
        "key": output.key,
        "timestamp_ms": output.timestamp_ms,
        "value": parse(output.value),
    }


def _parse_row(value: Any) -> Any:
    """Return a row; None: it was deleted; `NOTHING`: it was not changed."""
    return parse(value) if isinstance(value, bytes) else value
