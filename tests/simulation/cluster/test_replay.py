"""Traces repeated on more nodes than there were machines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.cluster.alibaba import MachineTrace
from simulation.cluster.readings import Readings
from simulation.cluster.replay import replay_readings

BEGIN_MS = 1_772_409_600_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def _trace(times: list[int], name: str = "m") -> MachineTrace:
    seconds = np.array(times, dtype=np.int64)
    # The usage is the hour of the day, so that shifts can be seen.
    return MachineTrace(
        name, seconds, (seconds // 3600 % 24).astype(float), np.full(len(times), 90.0)
    )


def _replay(traces: list[MachineTrace], nodes: int, span_ms: int, seed: int = 1) -> Readings:
    return replay_readings(traces, nodes, 96_000, 1_000_000, BEGIN_MS, BEGIN_MS + span_ms, seed)


def test_the_first_nodes_replay_their_machines_at_their_own_irregular_times() -> None:
    trace = _trace([0, 70, 75, 4000, 80_000, 86_000])
    readings = _replay([trace], 1, 2 * HOUR_MS)
    assert (readings.at_ms - BEGIN_MS).tolist() == [0, 70_000, 75_000, 4_000_000]
    assert readings.millicores.tolist() == [0, 0, 0, 960]
    assert set(readings.memory_bytes.tolist()) == {900_000}


def test_the_best_recorded_days_come_first() -> None:
    days = [range(0, 86_400, 1200), range(86_400, 172_800, 300), range(172_800, 259_200, 600)]
    trace = _trace([second for day in days for second in day])
    readings = _replay([trace], 4, DAY_MS)
    counts = [int((readings.machine == node).sum()) for node in range(4)]
    # The second copy on has a jitter, by which a little of the next day comes in.
    assert counts[0] == 288
    assert counts[1] == pytest.approx(144, abs=3)
    assert counts[2] == pytest.approx(72, abs=6)
    assert counts[3] == pytest.approx(288, abs=6)


def test_copies_are_shifted_but_keep_the_hours_of_the_day() -> None:
    trace = _trace(list(range(0, 4 * 86_400, 300)))
    readings = _replay([trace], 3, DAY_MS)
    for node in range(3):
        own = readings.machine == node
        hours = (readings.at_ms[own] - BEGIN_MS) / HOUR_MS
        shown = readings.millicores[own] / 960
        difference = (hours - shown + 12) % 24 - 12
        assert np.abs(difference - 0.5).max() <= 1.05
    first, second = (readings.at_ms[readings.machine == node] for node in (0, 1))
    assert first.tolist() != second.tolist()


def test_a_machine_with_a_gap_gives_a_node_with_a_gap() -> None:
    trace = _trace([*range(0, 36_000, 60), *range(54_000, 86_400, 60)])
    at_ms = _replay([trace], 1, DAY_MS).at_ms - BEGIN_MS
    assert np.diff(at_ms).max() == 18_060_000


def test_readings_begin_anew_when_they_end() -> None:
    trace = _trace(list(range(600, 86_400, 1800)))
    readings = _replay([trace], 1, 3 * DAY_MS)
    assert len(readings) == 3 * 48
    assert readings.millicores[:48].tolist() == readings.millicores[96:].tolist()
    assert (np.diff(readings.at_ms) == 1_800_000).all()


def test_less_than_a_day_is_repeated_as_it_is() -> None:
    readings = _replay([_trace([100, 160, 220])], 1, 600_000)
    assert (readings.at_ms - BEGIN_MS).tolist() == [0, 60_000, 120_000, 180_000, 240_000, 300_000,
                                                    360_000, 420_000, 480_000, 540_000]  # fmt: skip


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.integers(0, 5 * 86_400), min_size=1, max_size=30, unique=True).map(sorted),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 7),
    st.integers(1, 2 * DAY_MS),
)
def test_readings_are_in_order_within_the_run_and_of_the_machines(
    times: list[list[int]], nodes: int, span_ms: int
) -> None:
    traces = [_trace(each, f"m_{number}") for number, each in enumerate(times)]
    readings = _replay(traces, nodes, span_ms)
    assert (np.diff(readings.at_ms) >= 0).all()
    if len(readings):
        assert readings.at_ms[0] >= BEGIN_MS
        assert readings.at_ms[-1] < BEGIN_MS + span_ms
        assert set(readings.machine.tolist()) <= set(range(nodes))


def test_the_same_seed_gives_the_same_shifts() -> None:
    trace = _trace(list(range(0, 4 * 86_400, 300)))
    one, again, other = (_replay([trace], 3, DAY_MS, seed).at_ms for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert one.tolist() != other.tolist()


@pytest.mark.parametrize("nodes", [1, 5])
def test_every_node_has_readings(nodes: int) -> None:
    trace = _trace(list(range(0, 2 * 86_400, 120)))
    assert set(_replay([trace], nodes, HOUR_MS).machine.tolist()) == set(range(nodes))
