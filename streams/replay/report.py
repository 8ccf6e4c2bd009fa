"""Formats the result of a replay as text and as JSON."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from streams.replay.diff import NOTHING, PATHS_MAX, format_value
from streams.replay.first_difference import Mismatch
from streams.replay.verify import Difference, ReplaySummary
from streams.stage.records import InputRecord

#: Most mismatches of each kind in a report.
MISMATCHES_MAX = 5

EQUAL, DIFFERENT, UNKNOWN = 0, 1, 3
"""Exit codes."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of the replay of one partition."""

    partition: int
    summary: ReplaySummary
    difference: Difference | None = None
    problem: str | None = None
    """Why the partition cannot be replayed completely."""
    history_missing: bool = False
    """Whether records are missing."""

    @property
    def verdict(self) -> str:
        """`equal`, `different`, `unknown`, or `empty` if no batch was compared."""
        if self.difference is not None:
            return "different"
        if self.problem is not None:
            return "unknown"
        return "equal" if self.summary.batches else "empty"


def choose_exit_code(results: list[ReplayResult]) -> int:
    """Return the exit code for all partitions: `DIFFERENT` before `UNKNOWN` before `EQUAL`."""
    verdicts = {result.verdict for result in results}
    if "different" in verdicts:
        return DIFFERENT
    return EQUAL if "equal" in verdicts and "unknown" not in verdicts else UNKNOWN


def format_lines(result: ReplayResult) -> list[str]:
    """Return the result as text."""
    head, summary = f"partition {result.partition}:", result.summary
    start = ""
    if summary.checkpoint_offset is not None:
        start = (
            f"; started with batch {summary.first_batch} after the checkpoint of {format_time(summary.checkpoint_ms)} "
            f"at journal offset {summary.checkpoint_offset}"
        )
    if result.verdict == "empty":
        return [f"{head} nothing to compare; {summary.folded_batches} batches were applied{start}"]
    equal = (
        f"{summary.batches} batches, {summary.inputs} inputs, {summary.outputs} outputs, "
        f"{summary.rows} rows from {format_time(summary.first_ms)} to {format_time(summary.last_ms)}, "
        f"outputs sha256 {summary.outputs_sha256}{start}"
    )
    if result.difference is not None:
        before = (
            f"after {summary.batches} equal batches" if summary.batches else "in the first batch"
        )
        return [f"{head} DIFFERENT {before}{start}", *_format_difference(result.difference)]
    if result.problem is not None:
        before = f"equal until then: {equal}" if summary.batches else "no batch was compared before"
        return [f"{head} CANNOT BE REPLAYED: {result.problem}", f"  {before}"]
    return [f"{head} equal: {equal}"]


def build_object(result: ReplayResult) -> dict[str, Any]:
    """Return the result as a JSON object, with complete recorded and replayed values."""
    fields: dict[str, Any] = {
        "partition": result.partition,
        "verdict": result.verdict,
        **asdict(result.summary),
    }
    if result.problem is not None:
        fields["problem"] = result.problem
    difference = result.difference
    if difference is not None:
        fields["difference"] = {
            "batch": difference.sequence,
            "journal_offset": difference.journal_offset,
            "now_ms": difference.now_ms,
            "problem": difference.problem,
            "first_input": None
            if difference.culprit is None
            else _locate_input(difference.culprit),
            "differing": len(difference.mismatches),
            "mismatches": [
                _describe_mismatch(mismatch) for mismatch in _choose_mismatches(difference)
            ],
        }
    return fields


def _format_difference(difference: Difference) -> list[str]:
    lines = [
        f"  batch {difference.sequence} (journal offset {difference.journal_offset}, {format_time(difference.now_ms)}): "
        f"{difference.problem}"
    ]
    if difference.culprit is not None:
        location = _locate_input(difference.culprit)
        lines.append(
            f"  first input with a difference: {location['topic']}, partition {location['partition']}, "
            f"offset {location['offset']}, key {location['key']}"
        )
    elif difference.mismatches:
        lines.append("  the input that causes the difference was not found")
    chosen = _choose_mismatches(difference)
    for mismatch in chosen:
        lines += _format_mismatch(mismatch)
    if len(difference.mismatches) > len(chosen):
        lines.append(f"  and {len(difference.mismatches) - len(chosen)} more")
    return lines


def _choose_mismatches(difference: Difference) -> list[Mismatch]:
    kinds: dict[str, list[Mismatch]] = {}
    for mismatch in difference.mismatches:
        kinds.setdefault(mismatch.kind, []).append(mismatch)
    return [mismatch for of_kind in kinds.values() for mismatch in of_kind[:MISMATCHES_MAX]]


def _format_mismatch(mismatch: Mismatch) -> list[str]:
    paths = mismatch.paths
    lines = [f"  {_name_mismatch(mismatch)}:"]
    for difference in paths:
        lines.append(f"    {difference.name}")
        lines.append(f"      recorded: {format_value(difference.recorded)}")
        lines.append(f"      replayed: {format_value(difference.replayed)}")
    if len(paths) == PATHS_MAX:
        lines.append("    and possibly more")
    return lines


def _name_mismatch(mismatch: Mismatch) -> str:
    if isinstance(mismatch.index_or_key, int):
        return f"{mismatch.kind} {mismatch.index_or_key + 1} of the batch"
    return f"row {mismatch.index_or_key}"


def _describe_mismatch(mismatch: Mismatch) -> dict[str, Any]:
    return {
        "what": _name_mismatch(mismatch),
        "paths": [difference.name for difference in mismatch.paths],
        **{
            side: _convert_to_json(value)
            for side, value in (("recorded", mismatch.recorded), ("replayed", mismatch.replayed))
            if value is not NOTHING
        },
    }


def _convert_to_json(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _locate_input(record: InputRecord) -> dict[str, Any]:
    key = None if record.key is None else record.key.decode(errors="replace")
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "key": key,
    }


def format_time(epoch_ms: int | None) -> str:
    if epoch_ms is None:
        return "before the first tick"
    try:
        time = datetime.fromtimestamp(epoch_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms"
    return f"{time:%Y-%m-%dT%H:%M:%S}.{epoch_ms % 1000:03d}Z"
