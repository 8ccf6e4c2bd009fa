"""A defect of loadstream touches one cluster, and the record that shows it.

The defects are put in on purpose: whatever names a poisoned pod raises, in applying it, in what is said of it,
or in writing its row.
"""

import logging
import random
from collections.abc import Callable
from typing import Any

import pytest

from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision
from schemas.messages.rounds import RebalanceRound
from schemas.storage.rows import FailedClusterRow
from schemas.topics.codec import decode, decode_as, encode_fields
from streams.cluster import batch_records, rebalancer
from streams.cluster import stage as stage_module
from streams.cluster.failures import FAILURES_MAX, FAILURES_MS
from streams.cluster.inventory_rows import NodeRows, PodRows
from streams.cluster.stage import ClusterStage
from streams.cluster.state import ClusterState
from streams.cluster.statistics import compute_figures
from streams.inventory.inventory import Inventory
from streams.rebalance.balancer import Balancer
from streams.stage.records import InputRecord, RowChange
from tests.streams.cluster.builders import (
    CLUSTER,
    lifecycle,
    metric,
    node,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Log
from tests.streams.cluster.twins import Side, Twins, equal

POISON = "poison"
Patch = pytest.MonkeyPatch


def half_applied(patch: Patch) -> None:
    """It raises when half of the state is changed."""
    hold = Inventory.hold

    def failing(self: Inventory, name: str, held: Any, *, first_seen: bool) -> None:
        hold(self, name, held, first_seen=first_seen)
        if held.pod.labels.get(POISON):
            raise ArithmeticError("half applied")

    patch.setattr(Inventory, "hold", failing)


def unwritable(patch: Patch) -> None:
    """Its row cannot be written."""
    written = PodRows.encode

    def failing(self: PodRows, key: tuple[str, str]) -> bytes | None:
        if key[1] == POISON:
            raise OverflowError("too large for a row")
        return written(self, key)

    patch.setattr(PodRows, "encode", failing)


def unspeakable(patch: Patch) -> None:
    """What is said of it cannot be encoded."""

    def failing(fields: dict[str, Any]) -> bytes:
        if fields.get("pod", {}).get("uid") == POISON:
            raise TypeError("not to be encoded")
        return encode_fields(fields)

    patch.setattr(batch_records, "encode_fields", failing)


def slow_time(patch: Patch) -> None:
    """Every tick fails."""

    ticked = ClusterState._apply_tick

    def failing(self: ClusterState, message: Any, position: Any) -> Any:
        if self.cluster == CLUSTER:
            raise ZeroDivisionError("no time")
        return ticked(self, message, position)

    patch.setattr(ClusterState, "_apply_tick", failing)


def poisoned() -> list[Any]:
    return [request(pod(POISON, labels={POISON: "yes"}))]


def letters(side: Side) -> list[tuple[str, str]]:
    """Topic and category of the dead letters."""
    read = [decode_as(DeadLetter, each.value) for each in side.dead_letters]
    return [(each.topic, each.category) for each in read if isinstance(each, DeadLetter)]


def failed_row(side: Side) -> FailedClusterRow | None:
    value = side.rows.get(f"0/{CLUSTER}/failed_clusters/")
    return None if value is None else FailedClusterRow.model_validate_json(value)


class Recorded:
    """A stage that gets messages, each as one batch; what it answers is kept."""

    def __init__(self) -> None:
        self.log, self.side = Log(), Side()
        self.said: list[Any] = []
        """What came of the newest batch."""

    def say(self, *messages: Any) -> list[Any]:
        result = self.side.apply([self.log.message(each) for each in messages])
        self.said = [decode(each.topic, each.value) for each in result.outputs]
        return self.said


@pytest.mark.parametrize("defect", [half_applied, unwritable, unspeakable])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a batch"])
def test_a_record_that_makes_a_cluster_fail_is_refused_and_changes_nothing(
    monkeypatch: Patch, defect: Callable[[Patch], None], alone: bool
) -> None:
    defect(monkeypatch)
    sides = []
    for passed_over in (False, True):
        recorded = Recorded()
        recorded.say(tick(), node("a"), metric("a"))
        messages = [request("p"), *poisoned(), request("q"), lifecycle("running", pod("r"), "a")]
        records = [recorded.log.message(each) for each in messages]
        if passed_over:
            del records[1]
        for batch in [[each] for each in records] if alone else [records]:
            recorded.side.apply(batch)
        sides.append(recorded.side)
    hurt, unhurt = sides
    assert letters(hurt) == [("scheduling-requests", "internal")]
    assert letters(unhurt) == []
    row = failed_row(hurt)
    assert row is not None
    assert (len(row.failed_at_ms), row.set_apart) == (1, False)
    held = [each.stage.clusters[CLUSTER].inventory.node_of_pod for each in sides]
    assert held[0] == held[1] == dict.fromkeys("pqr", "a")
    del hurt.rows[f"0/{CLUSTER}/failed_clusters/"]
    assert hurt.rows == unhurt.rows
    equal(hurt.outputs, unhurt.outputs, "output")


def test_a_record_that_makes_reading_fail_is_refused(monkeypatch: Patch) -> None:
    def failing(topic: str, value: bytes | None) -> Any:
        if topic == "node-state":
            raise RecursionError("a defect")
        return decode(topic, value)

    monkeypatch.setattr(stage_module, "decode", failing)
    recorded = Recorded()
    recorded.say(tick(), node("a"), request("p"))
    assert letters(recorded.side) == [("node-state", "internal")]
    assert len(recorded.side.stage.clusters[CLUSTER].placement.pending) == 1


def test_other_clusters_do_not_notice(monkeypatch: Patch) -> None:
    unwritable(monkeypatch)
    recorded = Recorded()
    other = [each.model_copy(update={"cluster": "other"}) for each in (node("a"), request("p"))]
    recorded.say(tick(), node("a"), *other, *poisoned())
    assert recorded.side.stage.clusters["other"].inventory.node_of_pod == {"p": "a"}
    assert "0/other/reserved_pods/a" in recorded.side.rows


def test_a_failure_that_is_long_ago_is_forgotten(monkeypatch: Patch) -> None:
    half_applied(monkeypatch)
    recorded = Recorded()
    recorded.say(tick(), node("a"), *poisoned())
    recorded.say(tick(FAILURES_MS / 1000 - 1))
    assert failed_row(recorded.side) is not None
    recorded.say(tick(FAILURES_MS / 1000))
    assert failed_row(recorded.side) is None


def test_a_cluster_that_fails_now_and_then_takes_no_more_memory_each_time(
    monkeypatch: Patch, inventories: Callable[[], int]
) -> None:
    # What pytest keeps of the log holds on to the frames of the failures.
    monkeypatch.setattr(logging.getLogger("streams.cluster.clusters"), "disabled", True)
    half_applied(monkeypatch)
    recorded = Recorded()
    recorded.say(tick(), node("a"), metric("a"), request("p"))
    before = inventories()
    for number in range(1, 11):
        recorded.say(tick(number * FAILURES_MS / 1000))
        recorded.say(lifecycle("running", pod(POISON, labels={POISON: "yes"}), "a"))
    assert letters(recorded.side) == [("pod-lifecycle", "internal")] * 10
    assert inventories() == before


@pytest.fixture
def set_apart(monkeypatch: Patch) -> Recorded:
    """A cluster that has failed once too often."""
    unwritable(monkeypatch)
    recorded = Recorded()
    recorded.say(tick(), node("a"), request("p"))
    for _ in range(FAILURES_MAX):
        recorded.say(*poisoned())
    return recorded


def test_a_cluster_that_fails_again_and_again_is_set_apart(set_apart: Recorded) -> None:
    side = set_apart.side
    assert CLUSTER not in side.stage.clusters
    assert side.stage.figures().set_apart == 1
    row = failed_row(side)
    assert row is not None
    assert row.set_apart
    assert "too large for a row" in row.reason
    (round_,) = [each for each in set_apart.said if isinstance(each, RebalanceRound)]
    assert f"`loadstream cluster resume {CLUSTER}`" in round_.gate
    assert "0/test/reserved_pods/a" in side.rows


def test_records_of_a_cluster_set_apart_are_kept_whole_and_counted(set_apart: Recorded) -> None:
    set_apart.say(request("q"), metric("a"))
    set_apart.side.restore()
    set_apart.say(request("q"), tick(1))
    assert letters(set_apart.side)[FAILURES_MAX:] == [
        ("scheduling-requests", "apart"),
        ("node-metrics", "apart"),
        ("scheduling-requests", "apart"),
    ]
    row = failed_row(set_apart.side)
    assert row is not None
    assert row.missed == {"node-metrics": 1, "scheduling-requests": 2}


@pytest.mark.parametrize("restart", [False, True])
def test_it_comes_back_with_a_policy_record_from_its_rows(
    set_apart: Recorded, restart: bool
) -> None:
    set_apart.say(tick(1), request("q"))
    if restart:
        set_apart.side.restore()
    said = set_apart.say(policy_record("reservationSeconds: 9"), request("r"))
    assert set_apart.side.stage.clusters[CLUSTER].inventory.node_of_pod == {"p": "a", "r": "a"}
    assert failed_row(set_apart.side) is None
    (round_,) = [each for each in said if isinstance(each, RebalanceRound)]
    assert "Missed records (in dead-letters): 1 of scheduling-requests." in round_.gate
    assert "the cluster was set apart for 1s; a policy record has brought it back." in round_.gate


@pytest.mark.parametrize("defect", [half_applied, unwritable])
def test_a_cluster_is_set_apart_and_comes_back_within_a_batch_as_over_many(
    monkeypatch: Patch, defect: Callable[[Patch], None]
) -> None:
    defect(monkeypatch)
    messages = [
        *(tick(), node("a"), request("p"), *poisoned(), tick(1), *poisoned(), request("q")),
        *(*poisoned(), request("missed"), tick(2), policy_record("reservationSeconds: 9")),
        *(request("r"), *poisoned(), tick(3)),
    ]
    alone, together = Recorded(), Recorded()
    for message in messages:
        alone.say(message)
    together.say(*messages)
    state = together.side.stage.clusters[CLUSTER]
    assert state.inventory.node_of_pod == dict.fromkeys("pqr", "a")
    internal, apart = ("scheduling-requests", "internal"), ("scheduling-requests", "apart")
    assert letters(together.side) == [*[internal] * FAILURES_MAX, apart, internal]
    equal(together.side.dead_letters, alone.side.dead_letters, "dead letter")
    equal(together.side.outputs, alone.side.outputs, "output")
    assert together.side.rows == alone.side.rows


def test_another_version_tries_it_again(set_apart: Recorded) -> None:
    stage = ClusterStage.restore(0, 1, set_apart.side.rows, version="9.9.9")
    assert stage.clusters[CLUSTER].inventory.node_of_pod == {"p": "a"}
    changed = stage.apply([set_apart.log.message(tick(1))]).rows
    assert RowChange("0/test/failed_clusters/", None) in changed


def test_ticks_that_fail_set_a_cluster_apart_and_time_goes_on(monkeypatch: Patch) -> None:
    slow_time(monkeypatch)
    recorded = Recorded()
    other = node("a").model_copy(update={"cluster": "other"})
    recorded.say(tick(), node("a"), other)
    for second in range(1, FAILURES_MAX + 2):
        recorded.say(tick(second))
    assert list(recorded.side.stage.clusters) == ["other"]
    assert letters(recorded.side) == [("clock", "internal")] * FAILURES_MAX


def test_a_cluster_that_cannot_be_restored_is_set_apart_at_the_start(monkeypatch: Patch) -> None:
    recorded = Recorded()
    other = node("a").model_copy(update={"cluster": "other"})
    recorded.say(tick(), node("a"), other)

    def failing(self: NodeRows, row: Any) -> None:
        if row.cluster == CLUSTER:
            raise KeyError("a defect")

    monkeypatch.setattr(NodeRows, "take", failing)
    recorded.side.restore()
    assert list(recorded.side.stage.clusters) == ["other"]
    recorded.say(tick(1), node("b"))
    assert letters(recorded.side) == [("node-state", "apart")]
    assert failed_row(recorded.side) is not None


def test_figures_that_fail_are_left_out(monkeypatch: Patch) -> None:
    recorded = Recorded()
    recorded.say(tick(), node("a"), node("a").model_copy(update={"cluster": "other"}))

    def failing(state: ClusterState) -> Any:
        if state.cluster == CLUSTER:
            raise ValueError("a defect")
        return compute_figures(state)

    monkeypatch.setattr(stage_module, "compute_figures", failing)
    assert [each.cluster for each in recorded.side.stage.figures().clusters] == ["other"]


def any_message(draw: random.Random, seconds: int) -> Any:
    """Something of a small cluster, so that things meet."""
    name, uid = f"node-{draw.randrange(3)}", f"pod-{draw.randrange(8)}"
    return draw.choice(
        (
            tick(10 * seconds),
            node(name),
            metric(name, cpu=draw.randrange(8_000), seconds=10 * seconds),
            request(uid, withdrawn=draw.random() < 0.2),
            lifecycle(draw.choice(("running", "deleted")), pod(uid), name),
        )
    )


@pytest.mark.parametrize("defect", [half_applied, unspeakable])
@pytest.mark.parametrize("seed", range(6))
def test_outcome_of_defects_depends_neither_on_batches_nor_on_restarts(
    monkeypatch: Patch, defect: Callable[[Patch], None], seed: int
) -> None:
    defect(monkeypatch)
    draw, log, twins = random.Random(seed), Log(), Twins(seed)
    records: list[InputRecord] = [log.message(tick()), log.message(policy_record())]
    for number in range(60):
        while len(records) < draw.choice((1, 3, 9)):
            records.append(log.message(any_message(draw, number)))
        if not number % 4:
            records += [log.message(each) for each in poisoned()]
        if not number % 11:
            records.append(log.message(policy_record()))
        twins.apply(records)
        records = []
        if draw.random() < 0.3:
            twins.meet()
    twins.meet()
    assert {category for _, category in letters(twins.steady)} & {"internal", "apart"}
    equal(twins.steady.outputs, twins.restored.outputs, "output")


@pytest.mark.parametrize("fails", ["round", "record"])
def test_a_round_that_fails_takes_what_its_tick_had_decided_back_and_its_room(
    monkeypatch: Patch, fails: str
) -> None:
    """Decided and reserved by the tick before its round: then all of it, or nothing."""
    recorded, reserved = Recorded(), list[str]()

    def failing(*_: Any, **__: Any) -> Any:
        reserved.extend(recorded.side.stage.clusters[CLUSTER].inventory.node_of_pod)
        raise ArithmeticError("no round")

    rounds = "descheduling: {deschedulingInterval: 30s}"
    recorded.say(tick(), policy_record(rounds), request("p"), request("q"))
    with monkeypatch.context() as patch:
        if fails == "round":
            patch.setattr(Balancer, "round", failing)
        else:
            patch.setattr(rebalancer, "build_round", failing)
        recorded.say(node("a"), metric("a"))
        before = recorded.side.stage.clusters[CLUSTER]
        assert recorded.say(tick(60)) == []
        assert sorted(reserved) == ["p", "q"]
        state = recorded.side.stage.clusters[CLUSTER]
        assert state is not before, "put together again from its rows"
        assert letters(recorded.side) == [("clock", "internal")]
        assert list(state.inventory.node_of_pod) == []
        assert {each.request.pod.uid for each in state.placement.pending} == {"p", "q"}
    said = recorded.say(tick(61))
    placed = [each for each in said if isinstance(each, PlacementDecision)]
    assert {(each.pod.uid, each.outcome) for each in placed} == {("p", "placed"), ("q", "placed")}
    assert [type(each) for each in said].count(RebalanceRound) == 1
    assert set(recorded.side.stage.clusters[CLUSTER].inventory.node_of_pod) == {"p", "q"}
