"""System usage of nodes: read from traces, modelled, and included in all measurements."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
import pytest

from simulation.closed_loop.scenario import BEGIN_MS
from simulation.closed_loop.stage_contender import SampleBuilder
from simulation.closed_loop.system_usage import (
    COLUMNS,
    STEP_S,
    STEPS,
    model_system_usage,
    read_system_usage,
)
from simulation.closed_loop.trace_files import TraceError
from simulation.closed_loop.world import World
from tests.simulation.closed_loop.days import scenario

_FILE = "alibaba-machine-usage.csv"


def write_rows(directory: Path, rows: Sequence[tuple[object, ...]]) -> Path:
    lines = [",".join(COLUMNS)]
    lines += [f"{name},{at_s},{cpu},{memory},,,1,1,1" for name, at_s, cpu, memory in rows]
    (directory / _FILE).write_text("\n".join(lines) + "\n")
    return directory


def test_readings_are_steps_relative_to_the_mean_of_all_machines(tmp_path: Path) -> None:
    rows = [("a", 100, 10, 50), ("a", 100 + STEP_S, 30, 50), ("a", 100 + 2 * STEP_S, 99, 50)]
    rows += [("b", 5, 20, 50), ("b", 5 + 2 * STEP_S, 20, 50)]
    file, (cpu, memory) = read_system_usage(write_rows(tmp_path, rows))
    assert file == _FILE
    assert cpu.shape == (2, STEPS)
    # The last reading is the end of the trace, which then starts again.
    assert cpu[0, :4] == pytest.approx([0.5, 1.5, 0.5, 1.5])
    assert cpu[1] == pytest.approx(1.0)
    assert memory == pytest.approx(1.0)


@pytest.mark.parametrize("reading", ["", "-1", "101", "250", "-3", "nan", "inf"])
def test_an_invalid_reading_of_either_resource_is_left_out(tmp_path: Path, reading: str) -> None:
    valid = ("a", 300, 20, 30)
    invalid = [("a", 0, reading, 30), ("a", 900, 90, reading), ("b", 0, reading, reading)]
    _, shape = read_system_usage(write_rows(tmp_path, [valid, *invalid]))
    assert shape.shape == (2, 1, STEPS)
    assert shape == pytest.approx(1.0)


@pytest.mark.parametrize(("time", "cpu"), [("soon", 20), (30, "much")])
def test_a_malformed_row_is_an_error_that_names_file_and_line(
    tmp_path: Path, time: object, cpu: object
) -> None:
    rows = [("a", 10, 20, 30), ("a", time, cpu, 30)]
    with pytest.raises(TraceError, match=f"{_FILE} line 3: .* found '(soon|much)'"):
        read_system_usage(write_rows(tmp_path, rows))


def test_a_file_without_a_valid_reading_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no valid reading"):
        read_system_usage(write_rows(tmp_path, [("a", 10, -1, 30)]))


def test_the_model_is_one_list_of_machines_with_different_changing_usage() -> None:
    first, second = model_system_usage(), model_system_usage()
    assert (first == second).all()
    assert first.mean(axis=(1, 2)) == pytest.approx([1.0, 1.0], abs=1e-3)
    assert (first > 0).all()
    cpu, memory = first.std(axis=2).mean(axis=1)
    assert cpu > 5 * memory > 0


def test_the_requested_load_includes_system_usage() -> None:
    drawn, without = scenario(nodes=20, hours=2, system_share=0.1), scenario(nodes=20, hours=2)
    assert drawn.plans == without.plans
    assert drawn.machines == without.machines
    assert without.system is None
    assert drawn.system is not None
    times = range(drawn.measured_ms - BEGIN_MS, drawn.end_ms - BEGIN_MS, 1000 * STEP_S)
    capacity = sum(machine.millicores for machine in drawn.machines)
    share = np.mean([drawn.system.compute(at_ms)[:, 0].sum() for at_ms in times]) / capacity
    assert share == pytest.approx(0.1, rel=0.4)
    assert drawn.factor / without.factor == pytest.approx((0.4 - share) / 0.4)


def test_system_usage_is_part_of_the_node_and_not_of_its_pods() -> None:
    """As in production, system usage is the usage of the node without its pods."""
    drawn = scenario(system_share=0.1)
    world = World(drawn)
    moment = world.usage.measure(BEGIN_MS)
    assert drawn.system is not None
    assert moment.demand == pytest.approx(drawn.system.compute(0))
    assert (moment.demand > 0).all()
    samples = [orjson.loads(record.value) for record in SampleBuilder(world).build(moment)]
    assert samples
    for sample in samples:
        node = world.usage.node_indexes[sample["node"]]
        assert sample["pods"] == []
        assert sample["usage"]["cpu"] == int(moment.demand[node, 0])


def test_a_saturated_node_reduces_system_usage_like_the_usage_of_pods() -> None:
    drawn = scenario(load=0.9, system_share=0.85)
    world = World(drawn)
    plan = drawn.plans[0]
    world.cluster.request_node(plan)
    assert world.cluster.place(plan, drawn.machines[0].name) is None
    assert drawn.system is not None
    # The time of the highest system usage.
    system, times = drawn.system, range(0, 8 * 86_400_000, 1000 * STEP_S)
    at_ms = BEGIN_MS + max(times, key=lambda offset_ms: system.compute(offset_ms)[0, 0])
    moment = world.usage.measure(at_ms)
    assert moment.demand[0, 0] > moment.node_usage[0, 0] == drawn.machines[0].millicores
    share = moment.node_usage[0, 0] / moment.demand[0, 0]
    demand = moment.demand[0, 0] - drawn.system.compute(at_ms - BEGIN_MS)[0, 0]
    assert moment.pod_usage[:, 0].sum() == pytest.approx(demand * share)
