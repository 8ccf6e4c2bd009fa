"""A watch of a fake API server, without and with every known fault."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest

from connectors.kubernetes.api import list_watch
from connectors.kubernetes.sinks.binding import DECISION_ANNOTATION
from connectors.kubernetes.watch import state_watch
from connectors.kubernetes.watch.kinds import PODS
from connectors.kubernetes.watch.state_watch import KubernetesWatch, WatchBroken
from streams.placement.filters.unsupported import find_obstacle
from tests.connectors.kubernetes.watch.documents import changed, node, pod
from tests.connectors.kubernetes.watch.fake_api import FakeApi, Served
from tests.connectors.kubernetes.watch.fold import Fold, Reader, expected
from tests.connectors.ports.state_watch_contract import StateWatchContract, StateWatchWorld

NODES = "/api/v1/nodes"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


class _World(StateWatchWorld):
    def __init__(self, api: FakeApi, watch: KubernetesWatch) -> None:
        self.api, self.watch, self.cluster_name = api, watch, watch.cluster
        self._pods = 0

    async def full_list(self, list_id: str) -> list[tuple[str, Any]]:
        return [record async for record in self.watch.full_list(list_id)]

    async def create_pod(self) -> str:
        self._pods += 1
        self.api.put(PODS, pod(f"p{self._pods}"))
        return f"uid-p{self._pods}"

    async def bind(self, uid: str) -> str:
        self.api.put(PODS, bound(uid.removeprefix("uid-"), by_us=True))
        return "node-1"

    async def changes(self) -> list[tuple[str, Any]]:
        """Read all changes up to the record of a marker pod of another scheduler."""
        self._pods += 1
        name = f"last-{self._pods}"
        self.api.put(PODS, pod(name, ("spec/schedulerName", "x"), ("spec/nodeName", "node-2")))
        written: list[tuple[str, Any]] = []
        async with aclosing(self.watch.changes()) as changes:
            async for topic, message in changes:
                if hasattr(message, "pod") and message.pod.name == name:
                    break
                written.append((topic, message))
        return written


class TestKubernetesWatch(StateWatchContract):
    @pytest.fixture
    async def world(self, api: FakeApi, watch: KubernetesWatch) -> StateWatchWorld:
        assert [record async for record in watch.full_list("first")]
        return _World(api, watch)


def bound(name: str, *changes: tuple[str, Any], by_us: bool = False) -> dict[str, Any]:
    where = (("spec/nodeName", "node-1"),)
    if by_us:
        notes = pod(name)["metadata"]["annotations"]
        return pod(
            name, *where, ("metadata/annotations", {**notes, DECISION_ANNOTATION: "d"}), *changes
        )
    return pod(name, *where, *changes)


def agrees(api: FakeApi, fold: Fold) -> bool:
    documents = {path: list(objects.values()) for path, objects in api.objects.items()}
    return fold.summary() == expected(documents)


@pytest.fixture
async def reader(watch: KubernetesWatch) -> AsyncIterator[Reader]:
    async with Reader(watch) as reader:
        await reader.until(lambda: reader.fold.full_lists == 1)
        yield reader


# --- what is reported ---------------------------------------------------------------------------


async def test_changes_come_after_a_full_list(watch: KubernetesWatch) -> None:
    with pytest.raises(WatchBroken, match="full list comes first"):
        await anext(watch.changes())


async def test_the_lifecycle_of_a_pod_that_loadstream_binds(api: FakeApi, reader: Reader) -> None:
    initialised = {
        "type": "Initialized",
        "status": "True",
        "lastTransitionTime": "2026-11-20T10:00:00Z",
    }
    api.put(PODS, pod("a"))
    api.put(PODS, bound("a", by_us=True))
    api.put(PODS, bound("a", ("status/conditions", [initialised]), by_us=True))
    running = (("status/conditions", [initialised]), ("status/phase", "Running"))
    api.put(PODS, bound("a", *running, by_us=True))
    labelled = (*running, ("metadata/labels", {"app": "b"}))
    api.put(PODS, bound("a", *labelled, by_us=True))
    api.put(PODS, bound("a", *labelled, ("status/phase", "Succeeded"), by_us=True))
    api.delete(PODS, "shop/a")
    api.put(PODS, pod("b"))
    await reader.until(lambda: reader.fold.events("b") == ["asked"])
    assert reader.fold.events("a") == [
        "asked", "bound", "initialised", "running", "changed", "finished",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "events"),
    [
        ([bound("a")], ["asked", "bound", "withdrawn"]),
        ([bound("a", by_us=True), None], ["asked", "bound", "deleted"]),
        ([None], ["asked", "deleted", "withdrawn"]),
        (
            [pod("a", ("metadata/deletionTimestamp", "2026-11-20T10:00:00Z")), None],
            ["asked", "withdrawn"],
        ),
        ([pod("a", ("metadata/labels", {"x": "y"}))], ["asked", "asked"]),
        ([pod("a", ("metadata/annotations", {"of/others": "1",
            "scheduling.koordinator.sh/eviction-cost": "7"}))], ["asked"]),
        ([pod("a", ("status/conditions", [{"type": "PodScheduled", "status": "False"}]))], ["asked"]),
        ([pod("a", ("status/phase", "Failed"))], ["asked", "finished", "withdrawn"]),
    ],
)  # fmt: skip
async def test_a_request_is_withdrawn_or_repeated(
    api: FakeApi, reader: Reader, steps: list[Any], events: list[str]
) -> None:
    api.put(PODS, pod("a"))
    for step in steps:
        if step is None:
            api.delete(PODS, "shop/a")
        else:
            api.put(PODS, step)
    api.put(PODS, pod("last"))
    await reader.until(lambda: reader.fold.events("last") == ["asked"])
    assert reader.fold.events("a") == events


async def test_no_requests_are_made_for_gated_pods_and_other_schedulers(
    api: FakeApi, reader: Reader
) -> None:
    api.put(PODS, pod("gated", ("spec/schedulingGates", [{"name": "quota"}])))
    api.put(PODS, pod("theirs-2", ("spec/schedulerName", "default-scheduler")))
    api.put(PODS, pod("gated"))
    api.put(PODS, bound("theirs-2", ("spec/schedulerName", "default-scheduler")))
    await reader.until(lambda: agrees(api, reader.fold))
    assert reader.fold.events("gated") == ["asked"]
    assert reader.fold.events("theirs-2") == ["bound"]


async def test_a_node_nominated_by_another_scheduler_is_reported_until_it_is_cleared(
    api: FakeApi, reader: Reader
) -> None:
    theirs = ("spec/schedulerName", "default-scheduler")
    nominated = ("status/nominatedNodeName", "node-1")
    api.put(PODS, pod("preempts", theirs, nominated))
    api.put(PODS, pod("gives-up", theirs, nominated))
    api.put(PODS, pod("ours", nominated))
    await reader.until(lambda: len(reader.fold.events("ours")) == 1)
    api.put(PODS, bound("preempts", theirs))
    api.put(PODS, pod("gives-up", theirs))
    await reader.until(lambda: len(reader.fold.events("gives-up")) == 2)
    assert reader.fold.events("preempts") == ["changed", "bound"]
    assert reader.fold.events("ours") == ["asked"]
    nodes = [
        message.pod.nominated_node
        for topic, message in reader.fold.messages
        if topic == "pod-lifecycle" and message.kind == "pod" and message.pod.name == "gives-up"
    ]
    assert nodes == ["node-1", None]


async def test_a_bound_claim_makes_its_waiting_pod_schedulable(
    api: FakeApi, reader: Reader
) -> None:
    claims = "/api/v1/persistentvolumeclaims"
    data = next(iter(api.objects[claims].values()))
    unbound = changed(data, ("metadata/name", "new"), ("spec/volumeName", None),
                      ("status/phase", "Pending"), ("metadata/uid", "new"))  # fmt: skip
    api.put(claims, unbound)
    await reader.until(lambda: agrees(api, reader.fold))
    mounts = {"name": "d", "persistentVolumeClaim": {"claimName": "new"}}
    api.put(PODS, pod("a", ("spec/volumes", [mounts])))

    def newest_unsupported() -> list[tuple[str, ...]]:
        # The watch may see the pod before its claim, and then sends another request with the storage class.
        requests = reader.fold.of("scheduling-requests")
        return [request.pod.unsupported for request in requests if request.pod.name == "a"][-1:]

    await reader.until(lambda: newest_unsupported() == [("unbound volume",)])
    api.put(claims, changed(unbound, ("spec/volumeName", "pv-1"), ("status/phase", "Bound")))
    await reader.until(lambda: newest_unsupported() == [("zonal volume",)])


async def test_irrelevant_changes_are_not_reported(api: FakeApi, reader: Reader) -> None:
    count = len(reader.fold.messages)
    beat = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T11:00:00Z"}]
    api.put(NODES, node("node-1", ("status/conditions", beat)))
    api.put(PODS, pod("running", ("spec/nodeName", "node-1"), ("status/phase", "Running"),
                      ("metadata/managedFields", []), ("status/podIP", "10.0.0.7")))  # fmt: skip
    api.put(NODES, node("node-2", ("spec/unschedulable", True)))
    api.put(PODS, pod("last"))
    await reader.until(lambda: len(reader.fold.messages) == count + 2)
    assert sorted(type(m).__name__ for _, m in reader.fold.messages[count:]) == [
        "NodeState", "SchedulingRequest",
    ]  # fmt: skip


async def test_an_object_too_large_for_a_record_is_skipped_and_reported(
    api: FakeApi, reader: Reader, watch: KubernetesWatch, caplog: pytest.LogCaptureFixture
) -> None:
    api.put(NODES, node("node-2", ("status/allocatable", {"cpu": "a lot"})))
    api.put(PODS, changed(pod("odd"), ("spec/containers", "none")))
    api.put(PODS, pod("last"))
    await reader.until(
        lambda: "uid-last" in reader.fold.waiting and "node-2" not in reader.fold.nodes
    )
    assert {health.path for health in watch.health() if health.left_out} == {NODES, PODS}
    assert "node-2 is omitted: allocatable.cpu is" in caplog.text
    assert "pod shop/odd of uid uid-odd is omitted: unexpected JSON" in caplog.text
    api.put(NODES, node("node-2"))
    api.delete(PODS, "shop/odd")
    await reader.until(lambda: agrees(api, reader.fold))
    assert not any(health.left_out for health in watch.health())


async def test_a_running_pod_too_large_for_a_record_keeps_its_room(
    api: FakeApi, reader: Reader
) -> None:
    many = [{"key": f"k{number}", "operator": "Exists"} for number in range(300)]
    api.put(PODS, bound("a", ("spec/tolerations", many)))
    await reader.until(lambda: "uid-a" in reader.fold.pods)
    carried = reader.fold.pods["uid-a"].pod
    assert carried.containers[0].requests == {"cpu": "500m", "memory": "512Mi"}
    assert carried.unsupported == ("more than its record can hold",)
    assert carried.tolerations == ()


async def test_a_waiting_pod_too_large_for_a_record_is_refused_by_a_decision(
    api: FakeApi, reader: Reader
) -> None:
    many = [{"key": f"k{number}", "operator": "Exists"} for number in range(300)]
    api.put(PODS, pod("a", ("spec/tolerations", many)))
    await reader.until(lambda: "uid-a" in reader.fold.waiting)
    assert find_obstacle(reader.fold.waiting["uid-a"].pod) == (
        "the pod requires more than its record can hold, which loadstream does not evaluate"
    )
    api.put(PODS, pod("a"))
    await reader.until(lambda: find_obstacle(reader.fold.waiting["uid-a"].pod) is None)


# --- faults -------------------------------------------------------------------------------------


async def change_objects(api: FakeApi) -> None:
    """Change objects in all ways while no watch runs."""
    api.delete(PODS, "shop/waiting")
    api.delete(PODS, "shop/running")
    api.put(PODS, pod("running", ("metadata/uid", "another"), ("spec/nodeName", "node-2")))
    api.put(PODS, pod("new"))
    api.put(PODS, bound("theirs", ("spec/schedulerName", "x"), ("metadata/labels", {"a": "b"})))
    api.delete(NODES, "node-2")
    api.put(NODES, node("node-3"))
    api.put(NODES, node("node-1", ("metadata/labels", {"zone": "b"})))
    api.delete(BUDGETS, "shop/web")


@pytest.mark.parametrize("in_stream", [True, False])
async def test_a_watch_with_an_expired_version_is_followed_by_a_list(
    api: FakeApi, reader: Reader, in_stream: bool
) -> None:
    api.gone_in_stream = in_stream
    api.silent = True
    await change_objects(api)
    api.compact()
    api.silent = False
    api.drop_watches()
    count = len(reader.fold.messages)
    await reader.until(lambda: agrees(api, reader.fold))
    assert reader.fold.full_lists == 1
    untouched = {"shop", "pv-1", "data", "high", "db"}
    assert not untouched & {
        getattr(message, "name", "") for _, message in reader.fold.messages[count:]
    }


async def test_a_half_open_connection_is_closed(
    api: FakeApi, watch: KubernetesWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_watch, "WATCH_S", 0.3)
    monkeypatch.setattr(list_watch, "SILENCE_S", 0.0)
    async with Reader(watch) as reader:
        await reader.until(lambda: reader.fold.full_lists == 1)
        api.silent = True
        await change_objects(api)
        watches = len(api.watches)
        await reader.until(lambda: len(api.watches) > watches + 11)
        assert not agrees(api, reader.fold)
        api.silent = False
        await reader.until(lambda: agrees(api, reader.fold))
    assert reader.fold.full_lists == 1


async def test_a_server_that_refuses_every_watch_is_not_listed_repeatedly(
    api: FakeApi, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_watch, "PAUSE_FIRST_S", 1_000.0)
    for collection in reader.watch._collections.values():
        collection.list_watch._list_pause_s = 1_000.0
    api.send_error(PODS, "etcdserver: no leader")
    for number in range(20):
        name = f"later-{number}"
        api.put(NODES, node(name))
        await reader.until(partial(reader.fold.nodes.__contains__, name))
    assert api.lists.count(PODS) == 1


async def test_a_restarted_server_is_read_again(
    api: FakeApi, reader: Reader, served: Served, watch: KubernetesWatch
) -> None:
    await served.stop()
    await reader.until(lambda: all(health.failing_s is not None for health in watch.health()))
    assert all(health.why for health in watch.health())
    await change_objects(api)
    await served.start()
    await reader.until(lambda: agrees(api, reader.fold))
    api.put(PODS, pod("last"))
    await reader.until(lambda: agrees(api, reader.fold))
    await reader.until(lambda: all(health.failing_s is None for health in watch.health()))


async def test_expired_pages_restart_within_the_full_list(
    api: FakeApi, watch: KubernetesWatch
) -> None:
    for number in range(1_200):
        api.put(PODS, bound(f"p{number}"))
    api.pages_expire = 2
    async with Reader(watch) as reader:
        await reader.until(lambda: reader.fold.full_lists == 1)
        assert agrees(api, reader.fold)
        events = [event for number in range(1_200) for event in reader.fold.events(f"p{number}")]
    assert events == ["seen"] * 1_200
    assert api.lists.count(PODS) >= 3


async def test_objects_deleted_during_paging_are_not_in_the_full_list(
    api: FakeApi, watch: KubernetesWatch
) -> None:
    for number in range(600):
        api.put(PODS, bound(f"p{number}"))
    fold = Fold()
    api.pages_expire = 1
    async with aclosing(watch.full_list("one")) as listing:
        async for topic, message in listing:
            fold.apply(topic, message)
            if getattr(getattr(message, "pod", None), "name", "") == "p1":
                for number in range(600):
                    api.objects[PODS].pop(f"shop/p{number}", None)
    assert agrees(api, fold)


@pytest.mark.parametrize("status", [403, 404])
async def test_a_forbidden_collection_is_reported_and_does_not_stop_others(
    api: FakeApi, watch: KubernetesWatch, status: int
) -> None:
    budget = dict(api.objects[BUDGETS])
    api.refused[BUDGETS] = status
    api.objects[BUDGETS].clear()
    async with Reader(watch) as reader:
        await reader.until(lambda: reader.fold.full_lists == 1)
        assert agrees(api, reader.fold)
        (ended,) = [m for m in reader.fold.of("pod-lifecycle") if m.kind == "list-end"]
        assert "disruption-budget" not in ended.kinds
        assert {"workload", "namespace", "priority-class"} < set(ended.kinds)
        (health,) = [health for health in watch.health() if health.path == BUDGETS]
        assert str(status) in health.why
        assert health.failing_s is not None
        api.objects[BUDGETS].update(budget)
        del api.refused[BUDGETS]
        await reader.until(lambda: agrees(api, reader.fold))


@pytest.mark.parametrize("path", [PODS, NODES])
async def test_there_is_no_full_list_without_nodes_and_pods(
    api: FakeApi, watch: KubernetesWatch, path: str
) -> None:
    api.refused[path] = 403
    async with Reader(watch) as reader:
        await reader.until(lambda: [e.path for e in watch.health() if e.failing_s] == [path])
        assert reader.fold.full_lists == 0
        del api.refused[path]
        await reader.until(lambda: reader.fold.full_lists == 1)
        assert agrees(api, reader.fold)


async def test_a_slow_reader_slows_the_watch_without_loss(
    api: FakeApi, reader: Reader, watch: KubernetesWatch
) -> None:
    reader.may_read.clear()
    for number in range(3 * state_watch.QUEUE_MAX):
        api.put(PODS, bound(f"p{number}"))
        if number % 100 == 0:
            await asyncio.sleep(0)
    await asyncio.sleep(0.2)
    assert len(reader.fold.pods) < 10
    reader.may_read.set()
    await reader.until(lambda: agrees(api, reader.fold))
