"""Finds the input that causes a difference.

The journal has the results of a batch, not of each input. So the batch is applied again input by input. This
gives the input of every replayed output and row. For recorded results, a decision has its input in `as_of`,
and a dead letter names its input. All these inputs are certain.

If a row was changed in the recording and in the replay, the replay gives the last input that changed the
differing part. This input is only possible, because the recorded change may come from another input. It is
considered if the first certain input was applied and changes no row of this kind.

If an input hides the change of an earlier input in the same batch, the later input is reported.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from schemas.storage.tables import kind_of_key
from streams.replay.diff import NOTHING, PathDifference, compare_values, get_at_path, parse_json
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
    """`output`, `dead letter` or `row`."""
    index_or_key: int | str
    """Index among the batch's outputs or dead letters, or key of a row."""
    recorded: Any
    """Recorded JSON value, or `NOTHING`."""
    replayed: Any
    """Replayed JSON value, or `NOTHING`."""

    @property
    def paths(self) -> list[PathDifference]:
        return compare_values(self.recorded, self.replayed)


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
        old_row, new_row = recorded.rows.get(key, NOTHING), replayed.rows.get(key, NOTHING)
        if old_row != new_row:
            mismatches.append(Mismatch("row", key, _parse_row(old_row), _parse_row(new_row)))
    return mismatches


def find_culprit(
    stage: Stage,
    rows: Mapping[str, bytes],
    applied: Sequence[InputRecord],
    mismatches: Sequence[Mismatch],
) -> InputRecord | None:
    """Return the first applied input with a different effect; None if it was not found.

    `stage` and `rows` are those before the batch; the inputs are applied to the stage.
    """
    if len(applied) == 1:
        return applied[0]
    results = [stage.apply([record]) for record in applied]
    effects = [Effect.of(result.published, result.rows) for result in results]
    input_indexes = {
        "output": [index for index, effect in enumerate(effects) for _ in effect.outputs],
        "dead letter": [index for index, effect in enumerate(effects) for _ in effect.dead_letters],
    }
    certain: list[int] = []
    possible: list[tuple[int, str]] = []
    last_writers: list[int] = []
    for mismatch in mismatches:
        if isinstance(mismatch.index_or_key, int):
            certain += input_indexes[mismatch.kind][
                mismatch.index_or_key : mismatch.index_or_key + 1
            ]
            certain += _find_recorded_input(mismatch, applied)
            continue
        key, kind = mismatch.index_or_key, kind_of_key(mismatch.index_or_key)
        writers = [index for index, effect in enumerate(effects) if key in effect.rows]
        if mismatch.recorded is NOTHING:
            certain += writers[:1]
        else:
            last_writers += writers[-1:]
            changing = _find_changing_inputs(mismatch, key, effects, rows.get(key))
            possible += [(index, kind) for index in changing[-1:]]
    if certain:
        first = effects[min(certain)]
        changed_kinds = set(map(kind_of_key, first.rows))
        if not first.dead_letters:
            certain += [index for index, kind in possible if kind not in changed_kinds]
    indexes = certain or [index for index, _ in possible] or last_writers
    return applied[min(indexes)] if indexes else None


def _find_recorded_input(mismatch: Mismatch, applied: Sequence[InputRecord]) -> list[int]:
    """Return the index of the input that a recorded output refers to, as a list of at most one."""
    if mismatch.kind == "dead letter":
        topic = get_at_path(mismatch.recorded, ("value", "topic"))
        offset = get_at_path(mismatch.recorded, ("value", "offset"))
        return [
            index
            for index, record in enumerate(applied)
            if (record.topic, record.offset) == (topic, offset)
        ][:1]
    offsets = ("value", "as_of", "offsets")
    candidates = [
        index
        for index, record in enumerate(applied)
        if isinstance(newest := get_at_path(mismatch.recorded, (*offsets, record.topic)), int)
        and record.offset <= newest
    ]
    return candidates[-1:]


def _find_changing_inputs(
    mismatch: Mismatch, key: str, effects: Sequence[Effect], row: bytes | None
) -> list[int]:
    """Return the indexes of the inputs that changed the differing part of a row."""
    value = parse_json(row) if row is not None else None
    paths = [difference.path for difference in mismatch.paths]
    indexes: list[int] = []
    for index, effect in enumerate(effects):
        new_value = _parse_row(effect.rows.get(key, NOTHING))
        if new_value is not NOTHING:
            if any(get_at_path(new_value, path) != get_at_path(value, path) for path in paths):
                indexes.append(index)
            value = new_value
    return indexes


def _describe_output(output: OutputRecord | None) -> Any:
    if output is None:
        return NOTHING
    return {
        "topic": output.topic,
        "key": output.key,
        "timestamp_ms": output.timestamp_ms,
        "value": parse_json(output.value),
    }


def _parse_row(value: Any) -> Any:
    """Return the JSON value of a row, None for a deleted row, or `NOTHING` for an unchanged row."""
    return parse_json(value) if isinstance(value, bytes) else value
