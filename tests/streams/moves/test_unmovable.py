"""Which pods are left alone, and what brings them back."""

import random
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from schemas.moves import UNMOVABLE_PER_NODE_MAX
from streams.moves.unmovable import Unmovable
from tests.streams.cluster.builders import CLUSTER, at
from tests.streams.moves.builders import policy, ref
from tests.streams.moves.harness import unmovable

ROOM = {"cpu": 4000, "memory": 1000}


def test_a_pod_that_is_larger_than_any_room_is_left_alone_until_it_is_not() -> None:
    pods = unmovable(initialUnmovableSeconds=600)
    usage = {"cpu": 8000, "memory": 10}
    assert pods.unmovable("a", usage, ROOM, at(0)) is None
    pods.mark(ref("a"), "node-1", "cpu 8000m of at most 4000m", usage, ROOM, at(0))
    assert pods.unmovable("a", usage, ROOM, at(1)) == (
        "unmovable after 1 attempts: cpu 8000m of at most 4000m; tried again in 599 s, or when its "
        "usage falls or a target gains room"
    )
    # Neither of these makes it fit.
    assert pods.unmovable("a", {"cpu": 5000, "memory": 10}, ROOM, at(1)) is not None
    assert pods.unmovable("a", usage, {"cpu": 7000, "memory": 9000}, at(1)) is not None
    # Each of these may.
    assert pods.unmovable("a", {"cpu": 4000, "memory": 10}, ROOM, at(1)) is None
    assert pods.unmovable("a", usage, {"cpu": 8000, "memory": 1000}, at(1)) is None
    assert pods.unmovable("a", {"cpu": 6000}, {"cpu": 6000}, at(1)) is None
    assert pods.unmovable("a", usage, ROOM, at(600)) is None


def test_a_resource_without_a_limit_is_never_short() -> None:
    pods = unmovable()
    usage = {"cpu": 8000, "memory": 500}
    pods.mark(ref("a"), "node-1", "", usage, {"cpu": 4000}, at(0))
    assert pods.unmovable("a", usage, {"cpu": 7000}, at(1)) is not None
    assert pods.unmovable("a", usage, {"cpu": 8000}, at(1)) is None
    # There was no target at all, so nothing had room, and now memory has no limit.
    pods.mark(ref("a"), "node-1", "", usage, {"cpu": 0, "memory": 0}, at(0))
    assert pods.unmovable("a", usage, {"cpu": 8000}, at(1)) is None


def test_a_pod_of_which_nothing_alone_was_short_comes_back_with_a_noticeable_change() -> None:
    pods = unmovable()
    usage = {"cpu": 1000, "memory": 100}
    pods.mark(ref("a"), "node-1", "taints", usage, ROOM, at(0))
    assert pods.unmovable("a", {"cpu": 960, "memory": 100}, ROOM, at(1)) is not None
    assert pods.unmovable("a", {"cpu": 940, "memory": 100}, ROOM, at(1)) is None
    assert pods.unmovable("a", usage, {"cpu": 4190, "memory": 1000}, at(1)) is not None
    assert pods.unmovable("a", usage, {"cpu": 4210, "memory": 1000}, at(1)) is None


def test_the_wait_doubles_with_each_attempt_in_vain_up_to_its_limit() -> None:
    pods = unmovable(initialUnmovableSeconds=10, maxUnmovableSeconds=35)
    usage = {"cpu": 8000}
    now = 0
    for wait in (10, 20, 35, 35):
        pods.mark(ref("a"), "node-1", "too large", usage, ROOM, at(now))
        assert pods.unmovable("a", usage, ROOM, at(now + wait - 1)) is not None
        assert pods.unmovable("a", usage, ROOM, at(now + wait)) is None
        now += wait


def test_a_pod_that_is_gone_or_finds_a_target_is_forgotten() -> None:
    pods = unmovable()
    for uid in ("a", "b"):
        pods.mark(ref(uid), "node-1", "", {"cpu": 8000}, ROOM, at(0))
    pods.gone("a")
    row = pods.row("node-1")
    assert row is not None
    assert [each.pod.uid for each in row.pods] == ["b"]
    pods.movable("b")
    assert pods.row("node-1") is None
    assert list(pods.changed) == ["node-1"]
    pods.mark(ref("b"), "node-1", "", {"cpu": 8000}, ROOM, at(0))
    row = pods.row("node-1")
    assert row is not None
    assert row.pods[0].attempts == 1


def test_a_pod_that_nobody_tries_any_more_is_forgotten() -> None:
    pods = unmovable(initialUnmovableSeconds=10, maxUnmovableSeconds=100)
    pods.mark(ref("a"), "node-1", "", {"cpu": 8000}, ROOM, at(0))
    pods.tick(at(109))
    assert len(pods) == 1
    pods.tick(at(110))
    assert len(pods) == 0


def test_a_pod_that_moved_on_its_own_is_kept_with_its_new_node() -> None:
    pods = unmovable()
    for node in ("node-1", "node-2"):
        pods.mark(ref("a"), node, "", {"cpu": 8000}, ROOM, at(0))
    assert pods.row("node-1") is None
    assert len(pods) == 1


@given(
    st.integers(0, 9000), st.integers(0, 9000), st.integers(0, 9000), st.integers(0, 9000),
    st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000)), min_size=1, max_size=4),
)  # fmt: skip
def test_a_pod_that_was_short_of_something_is_never_kept_back_from_a_target_that_has_room(
    cpu: int, memory: int, cpu_now: int, memory_now: int,
    before: list[tuple[int, int]], now: list[tuple[int, int]],
) -> None:  # fmt: skip
    """Targets as (cpu, memory) of room; the pod is marked only when none of them could take it."""

    def best(targets: list[tuple[int, int]]) -> dict[str, int]:
        return {"cpu": max(c for c, _ in targets), "memory": max(m for _, m in targets)}

    room = best(before)
    if cpu <= room["cpu"] and memory <= room["memory"]:
        return
    pods = unmovable()
    pods.mark(ref("a"), "node-1", "", {"cpu": cpu, "memory": memory}, room, at(0))
    fits = any(cpu_now <= c and memory_now <= m for c, m in now)
    usage = {"cpu": cpu_now, "memory": memory_now}
    if fits:
        assert pods.unmovable("a", usage, best(now), at(1)) is None
    if usage == {"cpu": cpu, "memory": memory} and best(now) == room:
        assert pods.unmovable("a", usage, best(now), at(1)) is not None


def test_too_many_pods_push_out_those_tried_longest_ago() -> None:
    pods = Unmovable(CLUSTER, policy(), pods_max=300)
    for number in range(400):
        node = "node-1" if number < 290 else "node-2"
        pods.mark(ref(f"pod-{number:03}"), node, "", {"cpu": 8000}, ROOM, at(number))
        assert len(pods) <= 300
        row = pods.row("node-1")
        assert row is not None
        assert len(row.pods) <= UNMOVABLE_PER_NODE_MAX
    newest = pods.row("node-2")
    assert newest is not None
    assert len(newest.pods) == 110
    assert pods.unmovable("pod-000", {"cpu": 8000}, ROOM, at(400)) is None


class _NeverWalked(dict[str, str]):
    """Nodes by pod, which nobody looks through."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all pods are looked at")


def test_who_was_tried_longest_ago_is_known_without_a_look_at_all_pods() -> None:
    pods, draw = Unmovable(CLUSTER, policy(), pods_max=50), random.Random(1)
    pods._where = _NeverWalked()
    tried: dict[str, int] = {}
    for second in range(2_000):
        uid = f"pod-{draw.randrange(120)}"
        if draw.random() < 0.1:
            pods.gone(uid)
            tried.pop(uid, None)
            continue
        tried.pop(uid, None)
        if len(tried) == 50:
            del tried[min(tried, key=lambda each: (tried[each], each))]
        tried[uid] = second // 7
        pods.mark(ref(uid), f"node-{uid[-1]}", "", {"cpu": 8000}, ROOM, at(second // 7))
        kept = {
            uid: each.marked_at_ms
            for of_node in pods.rows.values()
            for uid, each in of_node.items()
        }
        assert kept == {uid: at(seconds) for uid, seconds in tried.items()}


def test_nothing_is_left_alone_where_the_policy_says_so() -> None:
    pods = unmovable(enabled=False)
    pods.mark(ref("a"), "node-1", "", {"cpu": 8000}, ROOM, at(0))
    assert len(pods) == 0
