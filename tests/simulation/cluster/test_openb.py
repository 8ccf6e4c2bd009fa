"""Tasks of the OpenB trace as pods that want a node."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.cluster.openb import (
    LIFE_MAX_S,
    PAUSE_MAX_S,
    Task,
    plans_of,
    read_tasks,
    squeezed,
)
from simulation.cluster.tracefiles import TraceError
from tests.simulation.cluster.traces import write_openb

BEGIN_MS = 1_772_409_600_000
END_MS = BEGIN_MS + 3_600_000


def _task(name: str, created_s: int, quality: str = "LS") -> Task:
    return Task(name, 4000, 8192, quality, created_s, 600)  # type: ignore[arg-type]


def test_tasks_that_want_gpus_are_left_out_and_counted(tmp_path: Path) -> None:
    write_openb(
        tmp_path,
        [
            "a,4000,8192,1,1000,V100,LS,Running,10,20,10",
            "b,4000,8192,0,0,,LS,Running,30,90,30",
            "c,4000,8192,8,1000,,BE,Running,20,40,20",
        ],
    )
    found = read_tasks(tmp_path)
    assert [task.name for task in found.tasks] == ["b"]
    assert (found.rows, found.with_gpus, found.malformed.count) == (3, 2, 0)
    assert found.tasks[0].life_s == 60


def test_tasks_stand_in_the_order_of_their_arrival(tmp_path: Path) -> None:
    write_openb(
        tmp_path,
        [
            "b,1,1,0,0,,LS,Running,30,90,",
            "c,1,1,0,0,,LS,Running,5,90,",
            "a,1,1,0,0,,LS,Running,30,,",
        ],
    )
    found = read_tasks(tmp_path).tasks
    assert [task.name for task in found] == ["c", "a", "b"]
    assert found[1].life_s == LIFE_MAX_S


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("a,much,1,0,0,,LS,Running,1,2,", "cpu_milli: found 'much'"),
        ("a,1,1,none,0,,LS,Running,1,2,", "num_gpu: found 'none'"),
        ("a,1,1,0,0,,XX,Running,1,2,", "qos: found 'XX'; expected LS, BE"),
        (",1,1,0,0,,LS,Running,1,2,", "name: found ''"),
        ("a,1,1,0,0,,LS,Running,9,2,", "deletion_time: found 2; expected none before"),
        ("a,1,1,0", "found 4 fields; expected 11"),
    ],
)
def test_malformed_rows_are_told_with_file_and_line(
    tmp_path: Path, row: str, complaint: str
) -> None:
    write_openb(tmp_path, ["b,1,1,0,0,,LS,Running,1,2,", row])
    found = read_tasks(tmp_path)
    assert [task.name for task in found.tasks] == ["b"]
    assert found.malformed.count == 1
    assert f"openb_pod_list.csv line 3: {complaint}" in found.malformed.reported[0]


def test_a_list_without_tasks_that_can_be_placed_is_an_error(tmp_path: Path) -> None:
    write_openb(tmp_path, ["a,1,1,2,0,,LS,Running,1,2,"])
    with pytest.raises(TraceError, match="no task without GPUs in 1 rows"):
        read_tasks(tmp_path)


@pytest.mark.parametrize(
    ("quality", "labels", "qos_class", "resource", "limited"),
    [
        (
            "LS",
            {"koordinator.sh/priority-class": "koord-prod", "koordinator.sh/qosClass": "LS"},
            None, "cpu", False,
        ),
        (
            "BE",
            {"koordinator.sh/priority-class": "koord-batch", "koordinator.sh/qosClass": "BE"},
            None, "kubernetes.io/batch-cpu", False,
        ),
        ("Burstable", {"koordinator.sh/priority-class": "koord-prod"}, "Burstable", "cpu", False),
        ("Guaranteed", {"koordinator.sh/priority-class": "koord-prod"}, "Guaranteed", "cpu", True),
    ],
)  # fmt: skip
def test_a_quality_becomes_what_koordinator_knows_it_by(
    quality: str, labels: dict[str, str], qos_class: str | None, resource: str, limited: bool
) -> None:
    (plan,) = plans_of([_task("a", 0, quality)], BEGIN_MS, END_MS, seed=1)
    assert plan.pod.labels == labels
    assert plan.pod.qos_class == qos_class
    assert plan.requests[resource] == 4000
    container = plan.pod.containers[0]
    assert (container.limits == container.requests) is limited


def test_lives_and_requests_are_those_of_the_trace() -> None:
    (plan,) = plans_of([_task("a", 0)], BEGIN_MS, END_MS, seed=1)
    assert plan.life_ms == 600_000
    assert plan.pod.containers[0].requests == {"cpu": "4000m", "memory": str(8192 * 1024**2)}


@given(
    st.lists(st.integers(0, 10_000_000), min_size=1, max_size=40).map(sorted),
    st.integers(1_000_000, 86_400_000),
)
def test_squeezed_arrivals_keep_their_order_and_end_within_the_run(
    created: list[int], span_ms: int
) -> None:
    tasks = [_task(f"t{n}", created_s) for n, created_s in enumerate(created)]
    times = squeezed(tasks, BEGIN_MS, BEGIN_MS + span_ms)
    assert times == sorted(times)
    assert times[0] == BEGIN_MS
    assert times[-1] <= BEGIN_MS + span_ms


def test_a_long_pause_is_cut_and_distances_shrink_alike() -> None:
    tasks = [_task("a", 0), _task("b", PAUSE_MAX_S * 100), _task("c", PAUSE_MAX_S * 101)]
    assert squeezed(tasks, 0, 2000) == [0, 1000, 2000]


def test_the_same_seed_gives_the_same_pods_and_another_one_others() -> None:
    tasks = [_task("a", 0), _task("b", 10)]
    assert plans_of(tasks, BEGIN_MS, END_MS, seed=1) == plans_of(tasks, BEGIN_MS, END_MS, seed=1)
    assert plans_of(tasks, BEGIN_MS, END_MS, seed=1) != plans_of(tasks, BEGIN_MS, END_MS, seed=2)
