"""Replay reports in words and in JSON."""

import pytest

from streams.replay.diff import TEXT_CHARS_MAX
from streams.replay.report import MISMATCHES_MAX, ReplayResult, choose_exit_code, format_lines
from streams.replay.verify import Difference, ReplaySummary
from tests.streams.builders import metric, node, request, tick
from tests.streams.journaled import Journaled, altered
from tests.streams.world import Log

_SOME = ReplaySummary(batches=1)
_EQUAL = ReplayResult(0, _SOME)
_EMPTY = ReplayResult(1, ReplaySummary())
_DIFFERENT = ReplayResult(2, _SOME, Difference(0, 1, None, "outputs differ"))
_GONE = ReplayResult(3, _SOME, problem="offset 3 is gone")


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([_EQUAL], 0),
        ([_EQUAL, _EMPTY], 0),
        ([_EMPTY], 3),
        ([], 3),
        ([_EQUAL, _GONE], 3),
        ([_EQUAL, _DIFFERENT], 1),
        ([_GONE, _DIFFERENT, _EQUAL], 1),
    ],
)
def test_only_complete_comparisons_are_equal(verdicts: list[ReplayResult], code: int) -> None:
    assert choose_exit_code(verdicts) == code


def _different() -> ReplayResult:
    log, history = Log(), Journaled()
    names = [f"n{number}" for number in range(MISMATCHES_MAX + 5)]
    history.apply([log.record(tick()), *(log.record(node(name)) for name in names)])
    first = log.record(metric(names[0], cpu=1000))
    history.apply([first, *(log.record(request(f"p{n}")) for n in range(MISMATCHES_MAX + 5))])
    value = (first.value or b"").replace(b"1000", b"7000")
    topics = altered(history.topics, first, value.replace(b'"n0"', b'"' + b"m" * 100 + b'"'))
    difference, fold = history.replay(topics=topics)
    return ReplayResult(0, fold.summary, difference)


def test_a_difference_is_reported_in_few_lines_with_both_sides_and_its_input() -> None:
    lines = format_lines(_different())
    assert lines[0] == "partition 0: DIFFERENT after 1 equal batches"
    assert "batch 1 (journal offset 2, 2025-10-09T08:53:20.000Z)" in lines[1]
    assert lines[2] == (
        "  first input with a difference: node-metrics, partition 0, offset 0, key test"
    )
    text = "\n".join(lines)
    assert "row 0/test/nodes/n0:" in text
    assert text.count("recorded: ") == text.count("replayed: ") >= 2
    assert max(map(len, lines)) <= TEXT_CHARS_MAX + 60
