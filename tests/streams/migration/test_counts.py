"""Running counts of migrations equal those of a walk over all migrations."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streams.migration.registry import Registry, is_moving
from tests.streams.builders import (
    NO_LIMITS,
    budget,
    lifecycle,
    migration_policy,
    migration_row,
    outcome,
    replica,
    request,
    user_request,
    workload,
)
from tests.streams.world import World, world_with_pods

COUNT = 12
_STEPS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(("create", "run", "command", "end", "drop")),
        st.sampled_from(("a", "b")),
    ),
    max_size=30,
)


@given(_STEPS)
def test_groups_count_what_a_walk_finds(steps: list[tuple[int, str, str]]) -> None:
    registry = Registry()
    for number, step, node in steps:
        row = registry.get(f"m-{number}")
        if step == "create" and row is None:
            registry.put(migration_row(number, node))
        elif row is not None and step == "drop":
            registry.forget(row)
        elif row is not None and step != "create":
            change: dict[str, dict[str, Any]] = {
                "run": {"phase": "Running"},
                "command": {"attempts": 1},
                "end": {"phase": "Failed"},
            }
            registry.put(row.model_copy(update=change[step]))
        for name in ("a", "b"):
            for group, rows in (
                (registry.get_node_group(name), registry.list_by_node(name)),
                (registry.get_owner_group(f"o-{name}"), registry.list_by_owner(f"o-{name}")),
            ):
                assert group.pods == {row.pod.uid for row in rows}
                assert group.moving == {row.pod.uid for row in rows if is_moving(row)}
                assert group.without_command == {row.pod.uid for row in rows if not row.attempts}


def unavailable_by_walk(of: World, uid: str, *, include_waiting: bool) -> int:
    """Pods of owner web that are not ready, on the move or missing, counted one by one; see `ConcurrencyLimits`."""
    owners, registry = of.state.inventory.owners, of.state.migrations.lifecycle.registry
    pods, unready = set(owners.list_pods("web")), set(owners.list_unready("web"))
    gone = {
        row.pod.uid
        for row in registry.list_by_owner("web")
        if row.pod.uid != uid and (include_waiting or is_moving(row))
    }
    replicas = of.state.migrations.lifecycle.workloads.rows["web"].state.replicas
    return max(len(unready | gone), replicas - len(pods - unready - gone))


@given(st.data())
def test_unavailable_pods_are_as_many_as_a_walk_finds(data: st.DataObject) -> None:
    names = [f"p-{number}" for number in range(6)]
    of = world_with_pods(NO_LIMITS, *((replica(name), "node-1") for name in names))
    of.send(workload(replicas=8))
    limits, migrations = of.state.migrations.lifecycle.gates.limits, of.state.migrations.lifecycle
    for _ in range(data.draw(st.integers(1, 8))):
        name = data.draw(st.sampled_from(names))
        match data.draw(st.sampled_from(("propose", "unready", "ready", "gone", "tick"))):
            case "propose" if of.state.inventory.find_held(name) is not None:
                of.propose(name)
            case "unready" | "ready" as now:
                of.send(lifecycle("running", replica(name, ready=now == "ready"), "node-1"))
            case "gone":
                of.send(lifecycle("deleted", replica(name), "node-1"))
            case "tick":
                of.later()
        replicas = migrations.workloads.find_replicas(replica(name))
        assert replicas is not None
        group = migrations.registry.get_owner_group("web")
        for include_waiting in (False, True):
            moving = group.select(include_waiting=include_waiting) - {name}
            count = limits.count_unavailable(replicas, moving)
            assert count == unavailable_by_walk(of, name, include_waiting=include_waiting)


def test_migrations_that_wait_for_a_budget_use_it_up() -> None:
    pods = [(replica(f"p-{number:02}"), "node-1") for number in range(COUNT)]
    of = world_with_pods(NO_LIMITS, *pods)
    of.send(budget(allowed=COUNT // 2))
    answers = [of.propose(f"p-{number:02}") for number in range(COUNT)]
    assert answers[: COUNT // 2] == [None] * (COUNT // 2)
    assert all("and 6 migrations wait for it" in (answer or "") for answer in answers[COUNT // 2 :])
    of.send(lifecycle("running", replica("other"), "node-2"))
    assert "and 6 migrations wait for it" in (of.propose("p-11") or "")


def test_migrations_with_a_sent_command_wait_for_no_budget() -> None:
    of = world_with_pods(NO_LIMITS, *((replica(f"p-{number}"), "node-1") for number in range(3)))
    of.send(budget(allowed=2))
    assert of.propose("p-0") is None
    of.later()
    assert of.propose("p-1") is None or of.evictions
    of.send(outcome(of.evictions[0]))
    assert of.migration("p-0").attempts == 1


def test_counts_of_an_owner_follow_its_moving_pods() -> None:
    two = migration_policy(
        skipEvictionGates=["MaxMigratingPerWorkload"], maxUnavailablePerWorkload=2,
        evictQPS=0.001, defaultJobMode="EvictDirectly", evictBurst=1,
    )  # fmt: skip
    ready, unready, third = replica("a"), replica("b", ready=False), replica("c")
    other = replica("other", owner="other")
    moving_pods = world_with_pods(two, *((pod, "node-1") for pod in (ready, unready, third, other)))
    moving_pods.send(workload(replicas=3), user_request("migrate", pod=other))
    moving_pods.later()
    moving_pods.send(user_request("migrate", pod=ready))
    moving_pods.later()
    assert "2 pods" in str(moving_pods.propose("c"))
    moving_pods.send(user_request("abort", pod=ready), user_request("migrate", pod=unready))
    moving_pods.later()
    assert moving_pods.propose("c") is None


def test_an_adopted_pod_counts_for_its_new_controller() -> None:
    one = migration_policy(
        maxMigratingPerWorkload=1, skipEvictionGates=["MaxUnavailablePerWorkload"]
    )
    pods = [(replica(uid, owner="new"), "node-1") for uid in "bcd"]
    taken_over = world_with_pods(one, (replica("a", owner="old"), "node-1"), *pods)
    taken_over.send(user_request("migrate", pod=replica("a")))
    taken_over.later()
    taken_over.send(lifecycle("seen", replica("a", owner="new"), "node-1"))
    assert str(taken_over.propose("b")).startswith("1 migrations of ReplicaSet default/new")
    taken_over.send(lifecycle("deleted", replica("a", owner="new"), "node-1"))
    taken_over.send(request(replica("e", owner="new")))
    replacement = taken_over.migration("a").replacement
    assert replacement is not None
    assert replacement.uid == "e"
