import gc
from typing import Any

import pytest

from schemas.messages.pods import (
    HostPort,
    NodeRequirement,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    Toleration,
)
from streams.placement import placer as placer_module
from streams.pods import kind as kind_module
from streams.pods.kind import Kind, intern_pod, kind_of
from streams.stage.sized_cache import SizedCache
from tests.streams.builders import SCALING_FACTORS, at, container, node, pod, request, tick
from tests.streams.world import World


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "another", "uid": "another", "namespace": "elsewhere"},
        {"labels": {"app": "web", "version": "2"}},
        {"annotations": {"example.com/build": "17"}},
        {"created_at_ms": at(5), "scheduled_at_ms": at(6), "initialized_at_ms": at(7)},
        {"priority": 100},
        {"priority": 9500},
        {"owners": (OwnerReference(kind="ReplicaSet", name="web"),)},
        {"scheduler": "loadstream", "ready": True, "phase": "Unknown"},
        {"qos_class": "Guaranteed"},
        {"tolerations": ()},
    ],
)
def test_irrelevant_fields_do_not_change_the_kind(fields: dict[str, Any]) -> None:
    assert kind_of(pod(**fields)).key == kind_of(pod()).key


@pytest.mark.parametrize(
    "fields",
    [
        {"containers": (container({"cpu": "2"}),)},
        {"containers": (container({"cpu": "1", "memory": "1Gi"}),)},
        {"init_containers": (container({"cpu": "1m"}),)},
        {"overhead": {"cpu": "1m"}},
        {"required_node": "node-1"},
        {"node_selector": {"zone": "a"}},
        {"required_node_affinity": ()},
        {"required_node_affinity": (NodeSelectorTerm(),)},
        {"tolerations": (Toleration(operator="Exists"),)},
        {"unsupported": ("pod affinity",)},
        {"priority": 5500},
        {"labels": {"koordinator.sh/priority-class": "koord-free"}},
        {"labels": {"koordinator.sh/qosClass": "BE"}},
        {"annotations": {SCALING_FACTORS: '{"cpu": 50}'}},
        {"owners": (OwnerReference(kind="DaemonSet"),)},
        {
            "containers": (
                container(
                    {"cpu": "1", "memory": "1Gi"},
                    {"cpu": "1", "memory": "1Gi"},
                    host_ports=(HostPort(port=80),),
                ),
            )
        },
    ],
)
def test_relevant_fields_change_the_kind(fields: dict[str, Any]) -> None:
    assert kind_of(pod(**fields)).key != kind_of(pod()).key


def test_a_kind_is_the_same_whether_or_not_one_like_it_came_before() -> None:
    fields: dict[str, Any] = {
        "labels": {"koordinator.sh/qosClass": "LS"},
        "annotations": {SCALING_FACTORS: "{}"},
    }
    first = kind_of(pod("pod-1", cpu="123m", **fields))
    for number in range(9_000):
        kind_of(pod(cpu=f"{number}m"))
    again = kind_of(pod("pod-2", cpu="123m", **fields))
    assert again is not first
    assert (again.key, again.demand, again.prod) == (first.key, first.demand, first.prod)


def test_pods_of_a_kind_share_their_common_parts() -> None:
    first = pod("pod-1", cpu="321m", labels={"app": "a"})
    second = pod("pod-2", cpu="321m", labels={"app": "b"})
    for member in (first, second):
        before = member.model_copy(deep=True)
        intern_pod(member)
        assert member == before
    assert first.containers is second.containers


def test_pods_share_labels_and_owners_without_changing() -> None:
    owners = (OwnerReference(kind="ReplicaSet", name="web"),)
    pods = [pod(uid, labels={"app": "web"}, owners=owners) for uid in ("a", "b")]
    bare = pod("c", labels={}, owners=())
    kept = [member.model_copy(deep=True) for member in (*pods, bare)]
    for member in kept:
        intern_pod(member)
    first, second, third = kept
    assert first.labels is second.labels
    assert first.owners is second.owners
    assert [first, second, third] == [*pods, bare]


def test_a_request_that_was_withdrawn_leaves_neither_itself_nor_its_size_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds: SizedCache[Any, Kind] = SizedCache(bytes_max=400_000, entries_max=1_024)
    monkeypatch.setattr(kind_module, "_KINDS", kinds)
    monkeypatch.setattr(placer_module, "RANKINGS_BYTES_MAX", 600_000)
    world = World(tick(), node())
    for number in range(40):
        values = tuple(f"{number}-{value}" for value in range(1_000))
        zone = NodeRequirement(key="only-here", operator="In", values=values)
        large = pod(
            f"p{number}",
            annotations={"only-here": "n" * 50_000, "scheduling.koordinator.sh/x": f"{number}"},
            required_node_affinity=(NodeSelectorTerm(match_expressions=(zone,)),),
        )
        world.send(request(large))
        world.send(request(large, withdrawn=True))
    world.log.records.clear()
    rankings = world.state.placement.placer._rankings
    assert 0 < kinds.bytes <= 400_000
    assert 0 < rankings.bytes <= 600_000
    gc.collect()
    # Other tests leave pods behind in this process, too; these names are only of this one's.
    alive = [instance for instance in gc.get_objects() if isinstance(instance, Pod)]
    # Only the common parts of cached kinds remain, without annotations of single pods.
    assert not [item for item in alive if "only-here" in item.annotations and item is not large]
    requirements = [item for item in gc.get_objects() if isinstance(item, NodeRequirement)]
    values_alive = [item for item in requirements if item.key == "only-here"]
    assert len(values_alive) <= len(kinds) + len(rankings) + 1
