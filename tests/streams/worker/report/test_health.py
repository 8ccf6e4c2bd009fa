"""Liveness and readiness of a worker."""

from streams.cluster.stage import ClusterStage
from streams.worker.partitions import Partitions
from streams.worker.report.health import (
    BROKER_SILENCE_MAX_S,
    PROGRESS_MAX_S,
    Health,
)
from streams.worker.store.pipeline import PendingBatch, Pipeline
from tests.streams.worker.parts import NoBroker, own_partition


class _Clock:
    """A clock that moves only when a test sets it."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def _health() -> tuple[Health, Partitions, Pipeline, _Clock]:
    """Of a worker that has no partitions yet, and does not wait for them."""
    clock, partitions, pipeline = _Clock(), own_partition(), Pipeline(NoBroker())
    partitions.stages.clear()
    health = Health(lag_records_max=100, clock=clock)
    health.add_stage(partitions, pipeline)
    return health, partitions, pipeline, clock


def _begin_batch(pipeline: Pipeline, clock: _Clock) -> None:
    pipeline.add(PendingBatch([], clock.now_s, lambda seconds: None))


def test_a_worker_with_brokers_and_partitions_is_ready() -> None:
    health, *_ = _health()
    health.set_lags({"cluster": 100})
    assert not health.find_failures()
    assert not health.find_obstacles()


def test_a_worker_with_a_problem_is_alive_and_not_ready() -> None:
    health, partitions, *_ = _health()
    health.set_lags({})
    partitions.problems.report("topics", {"journal": "topic journal is missing"})
    assert not health.find_failures()
    assert list(health.find_obstacles()) == ["cluster: topic journal is missing"]
    partitions.problems.report("topics", {})
    assert not health.find_obstacles()


def test_a_blocked_event_loop_is_reported_as_dead() -> None:
    health, _, _, clock = _health()
    clock.now_s += PROGRESS_MAX_S
    assert not health.find_failures()
    clock.now_s += 1
    assert "event loop" in health.find_failures()[0]
    assert health.find_failures()[0] in health.find_obstacles()
    health.beat()
    assert not health.find_failures()


def _pass(health: Health, clock: _Clock, seconds: float, *, broker: bool, waiting: int = 0) -> None:
    """Time passes, in which the loop turns; so many records wait."""
    for _ in range(int(seconds)):
        clock.now_s += 1
        health.beat()
        if broker:
            health.set_lags({"cluster": waiting})


def test_a_hanging_batch_is_reported_as_dead() -> None:
    health, _, pipeline, clock = _health()
    health.set_lags({})
    _begin_batch(pipeline, clock)
    _pass(health, clock, PROGRESS_MAX_S, broker=True)
    assert not health.find_failures()
    _pass(health, clock, 1, broker=True)
    (problem,) = health.find_failures()
    assert problem.startswith("cluster: a batch is pending, without progress for 121 s")
    pipeline.drop_pending()
    assert not health.find_failures()


def test_the_time_of_a_batch_restarts_when_brokers_return() -> None:
    health, _, pipeline, clock = _health()
    health.set_lags({})
    _begin_batch(pipeline, clock)
    _pass(health, clock, 10 * PROGRESS_MAX_S, broker=False)
    assert not health.find_failures()
    _pass(health, clock, PROGRESS_MAX_S, broker=True)
    assert not health.find_failures()
    _pass(health, clock, 2, broker=True)
    assert health.find_failures()


def test_silent_brokers_and_lag_make_a_worker_unready_and_not_dead() -> None:
    health, _, _, clock = _health()
    health.set_lags({"cluster": 101})
    assert list(health.find_obstacles()) == ["101 records wait to be applied; allowed are 100"]
    clock.now_s += BROKER_SILENCE_MAX_S + 1
    health.beat()
    assert "no broker has answered for 21 s" in health.find_obstacles()[0]
    assert not health.find_failures()
    health.set_lags({})
    assert not health.find_obstacles()


def test_a_worker_is_ready_when_the_lag_of_new_partitions_is_known() -> None:
    health, partitions, *_ = _health()
    health.set_lags({})
    partitions.stages[2] = ClusterStage(2, 4)
    waits = ["cluster: the records to apply in new partitions are not counted yet"]
    assert list(health.find_obstacles()) == waits
    health.set_lags({}, {("aggregate", 2), ("cluster", 1)})
    assert list(health.find_obstacles()) == waits
    health.set_lags({"cluster": 100}, {("cluster", 2)})
    assert not health.find_obstacles()
    assert not health.find_failures()


def test_a_recovery_without_rows_is_dead_while_brokers_answer() -> None:
    health, partitions, _, clock = _health()
    partitions.recovered = False
    partitions.assigned_at_s = clock.now_s
    health.set_lags({})
    _pass(health, clock, PROGRESS_MAX_S, broker=True)
    assert not health.find_failures()
    _pass(health, clock, 1, broker=True)
    assert health.find_failures() == [
        "cluster: tables are being recovered, without progress for 121 s; allowed are 120 "
        "while brokers answer"
    ]
    partitions.assigned_at_s = clock.now_s
    assert not health.find_failures()
    # Missing brokers are no failure of the worker.
    _pass(health, clock, 10 * PROGRESS_MAX_S, broker=False)
    assert not health.find_failures()
    _pass(health, clock, PROGRESS_MAX_S, broker=True)
    assert not health.find_failures()
    _pass(health, clock, 2, broker=True)
    assert len(health.find_failures()) == 1


def test_a_worker_with_slow_progress_is_alive_and_one_without_is_dead() -> None:
    health, partitions, pipeline, clock = _health()
    _pass(health, clock, 10 * PROGRESS_MAX_S, broker=True)
    _begin_batch(pipeline, clock)
    for _ in range(5):
        _pass(health, clock, PROGRESS_MAX_S, broker=True, waiting=100)
        partitions.worked_at_s = clock.now_s
        assert not health.find_failures()
    pipeline.drop_pending()
    _pass(health, clock, PROGRESS_MAX_S, broker=True, waiting=100)
    assert not health.find_failures()
    _pass(health, clock, 1, broker=True, waiting=100)
    assert health.find_failures() == [
        "cluster: 100 records wait to be applied, without progress for 121 s; allowed are "
        "120 while brokers answer"
    ]
    _pass(health, clock, 1, broker=True)
    assert not health.find_failures()


def test_a_worker_is_alive_while_brokers_accept_no_writes() -> None:
    health, partitions, pipeline, clock = _health()
    health.set_lags({})
    _begin_batch(pipeline, clock)
    for _ in range(10):
        _pass(health, clock, PROGRESS_MAX_S, broker=True)
        partitions.writes_refused_at_s = clock.now_s
        assert not health.find_failures()
    _pass(health, clock, PROGRESS_MAX_S + 1, broker=True)
    assert health.find_failures()
