"""A defect of loadstream touches one cluster, and the record that shows it.

The defects are put in on purpose: whatever names a list_poison pod raises, in applying it, in what is said of it,
or in writing its row.
"""

import gc
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from schemas.storage.rows import FailedClusterRow
from schemas.topics.codec import decode, encode_fields
from streams.cluster import clusters, failures, rebalancer
from streams.cluster import stage as stage_module
from streams.cluster.failures import FAILURE_WINDOW_MS, FAILURES_MAX
from streams.cluster.inventory_rows import NodeRows, PodRows
from streams.cluster.stage import ClusterStage, compute_figures
from streams.cluster.state import ClusterState
from streams.inventory.inventory import Inventory
from streams.rebalance.balancer import Balancer
from streams.stage.records import InputRecord, RowChange
from tests.streams.builders import (
    CLUSTER,
    lifecycle,
    metric,
    node,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.world import World, outcomes

POISON = "poison"
Patch = pytest.MonkeyPatch


def fail_after_half(patch: Patch) -> None:
    """It raises when half of the state is changed."""
    hold = Inventory.hold

    def failing(self: Inventory, name: str, held: Any, *, first_seen: bool) -> None:
        hold(self, name, held, first_seen=first_seen)
        if held.pod.labels.get(POISON):
            raise ArithmeticError("half applied")

    patch.setattr(Inventory, "hold", failing)


def fail_writing_row(patch: Patch) -> None:
    """Its row cannot be written."""
    written = PodRows.encode

    def failing(self: PodRows, key: tuple[str, str]) -> bytes | None:
        if key[1] == POISON:
            raise OverflowError("too large for a row")
        return written(self, key)

    patch.setattr(PodRows, "encode", failing)


def fail_encoding_output(patch: Patch) -> None:
    """Encoding an output for the pod fails."""

    def failing(fields: dict[str, Any]) -> bytes:
        if fields.get("pod", {}).get("uid") == POISON:
            raise TypeError("not to be encoded")
        return encode_fields(fields)

    patch.setattr(clusters, "encode_fields", failing)


def fail_ticks(patch: Patch) -> None:
    """Every tick fails."""

    ticked = ClusterState._apply_tick

    def failing(self: ClusterState, message: Any, position: Any) -> Any:
        if self.cluster == CLUSTER:
            raise ZeroDivisionError("no time")
        return ticked(self, message, position)

    patch.setattr(ClusterState, "_apply_tick", failing)


def list_poison() -> list[Any]:
    return [request(pod(POISON, labels={POISON: "yes"}))]


def letters(world: World) -> list[tuple[str, str]]:
    """Topic and category of the dead letters."""
    return [(letter.topic, letter.category) for letter in world.dead_letters]


def failed_row(world: World) -> FailedClusterRow | None:
    value = world.rows.get(f"0/{CLUSTER}/failed_clusters/")
    return None if value is None else FailedClusterRow.model_validate_json(value)


@pytest.mark.parametrize("defect", [fail_after_half, fail_writing_row, fail_encoding_output])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a batch"])
def test_a_record_that_makes_a_cluster_fail_is_refused_and_changes_nothing(
    monkeypatch: Patch, defect: Callable[[Patch], None], alone: bool
) -> None:
    defect(monkeypatch)
    worlds = []
    for passed_over in (False, True):
        world = World(tick(), node("a"), metric("a"))
        messages = [request("p"), *list_poison(), request("q"), lifecycle("running", pod("r"), "a")]
        records = world.log.add(*messages)
        if passed_over:
            del records[1]
        for batch in [[record] for record in records] if alone else [records]:
            world.apply(batch)
        worlds.append(world)
    hurt, unhurt = worlds
    assert letters(hurt) == [("scheduling-requests", "internal")]
    assert letters(unhurt) == []
    row = failed_row(hurt)
    assert row is not None
    assert (len(row.failed_at_ms), row.set_apart) == (1, False)
    held = [world.stage.clusters[CLUSTER].inventory.node_of_pod for world in worlds]
    assert held[0] == held[1] == dict.fromkeys("pqr", "a")
    del hurt.rows[f"0/{CLUSTER}/failed_clusters/"]
    assert hurt.rows == unhurt.rows
    assert hurt.outputs == unhurt.outputs


def test_a_record_that_makes_reading_fail_is_refused(monkeypatch: Patch) -> None:
    def failing(topic: str, value: bytes | None) -> Any:
        if topic == "node-state":
            raise RecursionError("a defect")
        return decode(topic, value)

    monkeypatch.setattr(stage_module, "decode", failing)
    world = World()
    world.send_refused(tick(), node("a"), request("p"))
    assert letters(world) == [("node-state", "internal")]
    assert len(world.stage.clusters[CLUSTER].placement.pending) == 1


def test_other_clusters_are_not_affected(monkeypatch: Patch) -> None:
    fail_writing_row(monkeypatch)
    world = World()
    other = [item.model_copy(update={"cluster": "other"}) for item in (node("a"), request("p"))]
    world.send_refused(tick(), node("a"), *other, *list_poison())
    assert world.stage.clusters["other"].inventory.node_of_pod == {"p": "a"}
    assert "0/other/reserved_pods/a" in world.rows


def test_an_old_failure_is_forgotten(monkeypatch: Patch) -> None:
    fail_after_half(monkeypatch)
    world = World(tick(), node("a"))
    world.send_refused(*list_poison())
    world.send(tick(FAILURE_WINDOW_MS / 1000 - 1))
    assert failed_row(world) is not None
    world.send(tick(FAILURE_WINDOW_MS / 1000))
    assert failed_row(world) is None


@pytest.fixture
def inventories() -> Iterator[Callable[[], int]]:
    """Counts the inventories in memory. The garbage collector is off, so inventories in reference
    cycles are counted as well."""
    gc.collect()
    gc.disable()
    try:
        yield lambda: sum(isinstance(instance, Inventory) for instance in gc.get_objects())
    finally:
        gc.enable()


def test_occasional_failures_of_a_cluster_leak_no_memory(
    monkeypatch: Patch, inventories: Callable[[], int]
) -> None:
    # Log records that pytest keeps refer to the frames of the failures.
    monkeypatch.setattr(logging.getLogger("streams.cluster.clusters"), "disabled", True)
    fail_after_half(monkeypatch)
    world = World(tick(), node("a"), metric("a"), request("p"))
    before = inventories()
    for number in range(1, 11):
        world.send(tick(number * FAILURE_WINDOW_MS / 1000))
        world.send_refused(lifecycle("running", pod(POISON, labels={POISON: "yes"}), "a"))
    assert letters(world) == [("pod-lifecycle", "internal")] * 10
    assert inventories() == before


@pytest.fixture
def set_apart(monkeypatch: Patch) -> World:
    """A cluster that has failed once too often."""
    fail_writing_row(monkeypatch)
    world = World(tick(), node("a"), request("p"))
    for _ in range(FAILURES_MAX):
        world.send_refused(*list_poison())
    return world


def test_a_cluster_that_fails_repeatedly_is_set_apart(set_apart: World) -> None:
    assert CLUSTER not in set_apart.stage.clusters
    assert set_apart.stage.figures().set_apart == 1
    row = failed_row(set_apart)
    assert row is not None
    assert row.set_apart
    assert "too large for a row" in row.reason
    assert f"`loadstream cluster resume {CLUSTER}`" in set_apart.rounds[-1].gate
    assert "0/test/reserved_pods/a" in set_apart.rows


def test_records_of_a_cluster_set_apart_are_kept_whole_and_counted(set_apart: World) -> None:
    set_apart.send_refused(request("q"), metric("a"))
    set_apart.restart()
    set_apart.send_refused(request("q"), tick(1))
    assert letters(set_apart)[FAILURES_MAX:] == [
        ("scheduling-requests", "apart"),
        ("node-metrics", "apart"),
        ("scheduling-requests", "apart"),
    ]
    row = failed_row(set_apart)
    assert row is not None
    assert row.missed == {"node-metrics": 1, "scheduling-requests": 2}


@pytest.mark.parametrize("restart", [False, True])
def test_a_policy_record_brings_a_cluster_back_from_its_rows(
    set_apart: World, restart: bool
) -> None:
    set_apart.send_refused(tick(1), request("q"))
    if restart:
        set_apart.restart()
    set_apart.send(policy_record("reservationSeconds: 9"), request("r"))
    assert set_apart.stage.clusters[CLUSTER].inventory.node_of_pod == {"p": "a", "r": "a"}
    assert failed_row(set_apart) is None
    gate = set_apart.rounds[-1].gate
    assert "Missed records (in dead-letters): 1 of scheduling-requests." in gate
    assert "the cluster was set apart for 1s; a policy record has brought it back." in gate


@pytest.mark.parametrize("defect", [fail_after_half, fail_writing_row])
def test_setting_a_cluster_apart_gives_the_same_result_for_any_batch_sizes(
    monkeypatch: Patch, defect: Callable[[Patch], None]
) -> None:
    defect(monkeypatch)
    messages = [
        *(tick(), node("a"), request("p"), *list_poison(), tick(1), *list_poison(), request("q")),
        *(*list_poison(), request("missed"), tick(2), policy_record("reservationSeconds: 9")),
        *(request("r"), *list_poison(), tick(3)),
    ]
    alone, together = World(), World()
    for message in messages:
        alone.send_refused(message)
    together.send_refused(*messages)
    state = together.stage.clusters[CLUSTER]
    assert state.inventory.node_of_pod == dict.fromkeys("pqr", "a")
    internal, apart = ("scheduling-requests", "internal"), ("scheduling-requests", "apart")
    assert letters(together) == [*[internal] * FAILURES_MAX, apart, internal]
    assert together.dead_letters == alone.dead_letters
    assert together.outputs == alone.outputs
    assert together.rows == alone.rows


def test_another_version_brings_a_cluster_back(set_apart: World, monkeypatch: Patch) -> None:
    monkeypatch.setattr(failures, "VERSION", "9.9.9")
    stage = ClusterStage.restore(0, 1, set_apart.rows)
    assert stage.clusters[CLUSTER].inventory.node_of_pod == {"p": "a"}
    changed = stage.apply([set_apart.log.record(tick(1))]).rows
    assert RowChange("0/test/failed_clusters/", None) in changed


def test_failing_ticks_set_a_cluster_apart_and_do_not_stop_the_clock(monkeypatch: Patch) -> None:
    fail_ticks(monkeypatch)
    world = World()
    other = node("a").model_copy(update={"cluster": "other"})
    world.send(tick(), node("a"), other)
    for second in range(1, FAILURES_MAX + 2):
        world.send_refused(tick(second))
    assert list(world.stage.clusters) == ["other"]
    assert letters(world) == [("clock", "internal")] * FAILURES_MAX


def test_a_cluster_that_cannot_be_restored_is_set_apart_at_the_start(monkeypatch: Patch) -> None:
    world = World()
    other = node("a").model_copy(update={"cluster": "other"})
    world.send(tick(), node("a"), other)

    def failing(self: NodeRows, row: Any) -> None:
        if row.cluster == CLUSTER:
            raise KeyError("a defect")

    monkeypatch.setattr(NodeRows, "restore_row", failing)
    world.restart()
    assert list(world.stage.clusters) == ["other"]
    world.send_refused(tick(1), node("b"))
    assert letters(world) == [("node-state", "apart")]
    assert failed_row(world) is not None


def test_figures_that_fail_are_left_out(monkeypatch: Patch) -> None:
    world = World(tick(), node("a"), node("a").model_copy(update={"cluster": "other"}))

    def failing(state: ClusterState) -> Any:
        if state.cluster == CLUSTER:
            raise ValueError("a defect")
        return compute_figures(state)

    monkeypatch.setattr(stage_module, "compute_figures", failing)
    assert [cluster.cluster for cluster in world.stage.figures().clusters] == ["other"]


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


def catch_up(world: World, records: list[InputRecord], draw: random.Random) -> None:
    """Apply records in batches of any size, with restarts from rows in any order."""
    while records:
        if draw.random() < 0.3:
            world.restart(dict(draw.sample(list(world.rows.items()), len(world.rows))))
        size = draw.randint(1, 8)
        world.apply(records[:size])
        records = records[size:]


@pytest.mark.parametrize("defect", [fail_after_half, fail_encoding_output])
@pytest.mark.parametrize("seed", range(6))
def test_outcome_of_defects_depends_neither_on_batches_nor_on_restarts(
    monkeypatch: Patch, defect: Callable[[Patch], None], seed: int
) -> None:
    defect(monkeypatch)
    draw, steady, restored = random.Random(seed), World(), World()
    waiting = steady.log.add(tick(), policy_record())
    steady.apply(waiting)
    for number in range(60):
        messages = [any_message(draw, number) for _ in range(draw.choice((1, 3, 9)))]
        if not number % 4:
            messages += list_poison()
        if not number % 11:
            messages.append(policy_record())
        waiting += steady.log.add(*messages)
        steady.apply(waiting[-len(messages) :])
        if draw.random() < 0.3 or number == 59:
            catch_up(restored, waiting, draw)
            waiting = []
            assert restored.rows == steady.rows
            assert restored.stage.figures() == steady.stage.figures()
    assert {category for _, category in letters(steady)} & {"internal", "apart"}
    assert restored.dead_letters == steady.dead_letters
    assert restored.outputs == steady.outputs


@pytest.mark.parametrize("fails", ["round", "record"])
def test_a_failed_round_undoes_the_decisions_and_reservations_of_its_tick(
    monkeypatch: Patch, fails: str
) -> None:
    """Decided and reserved by the tick before its round: then all of it, or nothing."""
    world, reserved = World(), list[str]()

    def failing(*_: Any, **__: Any) -> Any:
        reserved.extend(world.stage.clusters[CLUSTER].inventory.node_of_pod)
        raise ArithmeticError("no round")

    rounds = "descheduling: {deschedulingInterval: 30s}"
    world.send(tick(), policy_record(rounds), request("p"), request("q"))
    with monkeypatch.context() as patch:
        if fails == "round":
            patch.setattr(Balancer, "make_round", failing)
        else:
            patch.setattr(rebalancer, "build_round", failing)
        world.send(node("a"), metric("a"))
        before = world.stage.clusters[CLUSTER]
        before_tick = len(world.outputs)
        world.send_refused(tick(60))
        assert len(world.outputs) == before_tick
        assert sorted(reserved) == ["p", "q"]
        state = world.stage.clusters[CLUSTER]
        assert state is not before, "put together again from its rows"
        assert letters(world) == [("clock", "internal")]
        assert list(state.inventory.node_of_pod) == []
        assert {waiting.request.pod.uid for waiting in state.placement.pending} == {"p", "q"}
    rounds_before = len(world.rounds)
    assert set(outcomes(world.send(tick(61)))) == {("p", "placed"), ("q", "placed")}
    assert len(world.rounds) == rounds_before + 1
    assert set(world.stage.clusters[CLUSTER].inventory.node_of_pod) == {"p", "q"}
