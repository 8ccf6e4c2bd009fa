"""Nodes and pods of a cluster, from lists and watches."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from connectors.kubernetes.api.list_watch import Begun, Changed, Deleted, Ended, Event, Present
from connectors.kubernetes.api.times import parse_time_ms
from connectors.kubernetes.sources.directory import Directory, KnownNode


def _node(name: str, address: str, port: int | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "InternalIP", "address": "fd00::1"},
            {"type": "Hostname", "address": name},
        ]
    }
    if port:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    return {"metadata": {"name": name, "labels": {"a": "b"}}, "status": status}


def _pod(name: str, uid: str, node: str | None) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "shop", "name": name, "uid": uid,
            "creationTimestamp": "2026-03-01T12:00:00Z",
        },
        "spec": {"nodeName": node} if node else {},
    }  # fmt: skip


async def _events(*events: Event) -> AsyncGenerator[Event, None]:
    for event in events:
        yield event


def _uids(directory: Directory, node: str) -> dict[str, str]:
    return {name: pod.uid for (_, name), pod in directory.pods_on(node).pods.items()}


async def test_nodes_are_known_with_addresses_and_port() -> None:
    directory = Directory()
    listed: list[Event] = [
        Begun(),
        Present(_node("n1", "10.0.0.1", 12345)),
        Present(_node("n2", "10.0.0.2")),
    ]
    await directory.take_nodes(_events(*listed))
    assert not directory.nodes_listed
    await directory.take_nodes(_events(*listed, Ended()))
    assert directory.nodes_listed
    n1, n2 = directory.nodes.values()
    assert n1.addresses == {"InternalIP": "10.0.0.1", "Hostname": "n1"}
    assert (n1.kubelet_port, n2.kubelet_port) == (12345, 10250)
    version = directory.nodes_version
    await directory.take_nodes(_events(Changed(_node("n1", "10.0.0.1", 12345))))
    assert directory.nodes_version == version  # a heartbeat
    await directory.take_nodes(_events(Changed(_node("n1", "10.0.0.9")), Deleted(_node("n2", ""))))
    assert list(directory.nodes) == ["n1"]
    assert directory.node_of("10.0.0.9:10250") == "n1"
    assert directory.node_of("10.0.0.1") is None


async def test_pods_are_known_by_node_and_name() -> None:
    directory = Directory()
    await directory.take_pods(
        _events(Begun(), Present(_pod("a", "1", "n1")), Present(_pod("b", "2", None)), Ended())
    )
    assert directory.pods_listed
    assert _uids(directory, "n1") == {"a": "1"}
    assert directory.pods_on("n1").pods["shop", "a"].created_at_ms == 1_772_366_400_000
    version = directory.pods_on("n1").version
    await directory.take_pods(_events(Changed(_pod("a", "1", "n1"))))
    assert directory.pods_on("n1").version == version
    await directory.take_pods(_events(Changed(_pod("b", "2", "n1")), Deleted(_pod("a", "1", "n1"))))
    assert _uids(directory, "n1") == {"b": "2"}
    assert directory.pods_on("n1").version > version


async def test_a_pod_that_replaces_another_of_its_name_is_another_one() -> None:
    directory = Directory()
    await directory.take_pods(_events(Changed(_pod("a", "1", "n1")), Changed(_pod("a", "2", "n1"))))
    await directory.take_pods(_events(Deleted(_pod("a", "1", "n1"))))
    assert _uids(directory, "n1") == {"a": "2"}


async def test_objects_missing_from_a_later_list_are_removed() -> None:
    directory = Directory()
    await directory.take_pods(_events(Begun(), Present(_pod("a", "1", "n1")), Ended()))
    version = directory.pods_on("n1").version
    await directory.take_pods(_events(Begun(), Present(_pod("b", "2", "n1")), Ended()))
    assert _uids(directory, "n1") == {"b": "2"}
    assert directory.pods_on("n1").version > version


@pytest.mark.parametrize(
    ("instance", "node"),
    [("n1", "n1"), ("n1:9100", "n1"), ("10.0.0.1:10250", "n1"), ("[fd00::1]:9100", "n1"),
     ("fd00::1", "n1"), ("10.0.0.7", None), ("n3", None), ("", None)],
)  # fmt: skip
def test_an_instance_is_a_node_by_name_or_address(instance: str, node: str | None) -> None:
    directory = Directory()
    directory.set_nodes(
        [
            KnownNode("n1", {"InternalIP": "10.0.0.1", "ExternalIP": "fd00::1"}, 10250, {}),
            KnownNode("n2", {"InternalIP": "10.0.0.7"}, 10250, {}),
            KnownNode("n3x", {"InternalIP": "10.0.0.7"}, 10250, {}),  # behind the same address
        ]
    )
    assert directory.node_of(instance) == node


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2026-03-01T12:00:00Z", 1_772_366_400_000), ("2026-03-01T12:00:00.25Z", 1_772_366_400_250),
     ("2026-03-01T12:00:00.123456789Z", 1_772_366_400_123), ("2026-03-01", None), ("x", None), (None, None)],
)  # fmt: skip
def test_times_are_parsed_to_milliseconds(text: object, expected: int | None) -> None:
    assert parse_time_ms(text) == expected
