"""Filter NodePorts."""

import pytest
from hypothesis import given

from schemas.messages.pods import Container, HostPort, Pod
from streams.inventory.node import Node
from streams.pods.kind import Kind, kind_of
from tests.streams.builders import bare_node, bare_pod, lifecycle
from tests.streams.cluster.oracle import check_filter
from tests.streams.strategies import Event, histories, wanted_kinds
from tests.streams.world import CoreWorld, filter_world

EVERYWHERE = "0.0.0.0"  # noqa: S104 - compared with, never bound to
REFUSED = "node(s) didn't have free ports for the requested pod ports"


def port(number: int, protocol: str = "TCP", host_ip: str = "") -> HostPort:
    return HostPort.model_validate({"port": number, "protocol": protocol, "host_ip": host_ip})


def taking(*ports: HostPort, uid: str = "p") -> Pod:
    """A pod with these host ports."""
    return bare_pod(uid, containers=(Container(host_ports=ports),))


def nodes_with(**ports: HostPort) -> CoreWorld:
    """Nodes a and b with these ports in use."""
    world = filter_world("NodePorts", bare_node("a"), bare_node("b"))
    for name, port in ports.items():
        world.hold(name, taking(port, uid=f"on-{name}"))
    return world


@pytest.mark.parametrize(
    ("used", "requested", "free"),
    [
        (port(80), port(80), False),
        (port(80), port(81), True),
        (port(80), port(80, "UDP"), True),
        (port(80), port(80, host_ip=EVERYWHERE), False),
        (port(80), port(80, host_ip="10.0.0.1"), False),
        (port(80, host_ip="10.0.0.1"), port(80), False),
        (port(80, host_ip="10.0.0.1"), port(80, host_ip=EVERYWHERE), False),
        (port(80, host_ip="10.0.0.1"), port(80, host_ip="10.0.0.1"), False),
        (port(80, host_ip="10.0.0.1"), port(80, host_ip="10.0.0.2"), True),
        (port(80, host_ip=EVERYWHERE), port(80, host_ip="10.0.0.2"), False),
        (port(80, host_ip="::"), port(80, host_ip="10.0.0.2"), True),
        (port(80, host_ip="::"), port(80), False),
    ],
)
def test_ports_collide_as_in_kubernetes(used: HostPort, requested: HostPort, free: bool) -> None:
    nodes = nodes_with(a=used)
    kind = kind_of(taking(requested))
    assert nodes.passing(kind) == (["a", "b"] if free else ["b"])
    assert nodes.reasons(kind) == {"a": None if free else REFUSED, "b": None}


def test_ports_that_are_taken_and_released_count_at_once() -> None:
    nodes, asking = nodes_with(), kind_of(taking(port(80)))
    assert nodes.passing(asking) == ["a", "b"]
    nodes.hold("a", taking(port(80), uid="on-a"))
    assert nodes.passing(asking) == ["b"]
    nodes.send(lifecycle("deleted", bare_pod("on-a")))
    assert nodes.passing(asking) == ["a", "b"]


def test_a_sidecar_takes_ports_and_an_init_container_does_not() -> None:
    sidecar = Container(host_ports=(port(80),), restart_policy="Always")
    ended = Container(host_ports=(port(81),))
    asking = bare_pod(init_containers=(sidecar, ended))
    nodes = nodes_with(a=port(80), b=port(81))
    assert nodes.passing(kind_of(asking)) == ["b"]


def collide(one: tuple[str, int, str], other: tuple[str, int, str]) -> bool:
    """`HostPortInfo.CheckConflict` of kube-scheduler, as a rule about two ports."""
    (protocol, number, address), (other_protocol, other_number, other_address) = one, other
    everywhere = ("", EVERYWHERE)
    return (protocol, number) == (other_protocol, other_number) and (
        address in everywhere or other_address in everywhere or address == other_address
    )


def ports_of(pod: Pod) -> list[tuple[str, int, str]]:
    sidecars = [c for c in pod.init_containers if c.restart_policy == "Always"]
    return [
        (p.protocol, p.port, p.host_ip) for c in (*pod.containers, *sidecars) for p in c.host_ports
    ]


@given(histories(), wanted_kinds())
def test_mask_and_reasons_follow_every_change(history: list[Event], kinds: list[Kind]) -> None:
    def accepts(pod: Pod, node: Node) -> bool:
        used = [port for held in node.held.values() for port in ports_of(held.pod)]
        return not any(collide(one, other) for one in ports_of(pod) for other in used)

    check_filter("NodePorts", history, kinds, accepts)
