from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.pods import Pod
from streams.inventory.node import Node
from streams.pods.held_pod import HeldPod
from streams.pods.kind import kind_of
from streams.usage.estimate import Estimator
from tests.streams.builders import load_args, node, pod
from tests.streams.strategies import UIDS, pods

_ESTIMATOR = Estimator(load_args())


def empty() -> Node:
    return Node("node-1", _ESTIMATOR)


def held(of: Pod) -> HeldPod:
    return HeldPod(pod=of, kind=kind_of(of), assigned_at_ms=0)


@given(st.lists(st.one_of(pods(), st.sampled_from(UIDS)), max_size=20))
def test_sums_are_those_of_the_pods_held(history: list[Pod | str]) -> None:
    node = empty()
    for event in history:
        if isinstance(event, str):
            node.release(event)
        else:
            node.hold(held(event), 0)
    demands = [pod.kind.demand for pod in node.held.values()]
    requested, limits, limited = Counter[str](), Counter[str](), Counter[str]()
    ports = Counter[tuple[str, int, str]]()
    for demand in demands:
        requested.update(demand.requests)
        limits.update(demand.limits)
        limited.update(name for name, amount in demand.limits.items() if amount > 0)
        ports.update((port.protocol, port.port, port.host_ip) for port in demand.host_ports)
    assert +node.requested == +requested
    assert +node.limits == +limits
    assert +node.limited == +limited
    assert node.ports == ports
    assert min(node.requested.values(), default=0) >= 0
    assert node.usage.assigned.keys() <= node.held.keys()


def test_a_pod_that_is_held_again_is_replaced() -> None:
    here = empty()
    here.hold(held(pod(cpu="1")), 0)
    here.hold(held(pod(cpu="3")), 0)
    assert here.requested["cpu"] == 3000
    assert list(here.held) == ["pod-1"]


def test_a_node_offers_its_allocatable_amounts() -> None:
    here = empty()
    assert here.allocatable == {}
    here.set_state(node(cpu="1500m"))
    assert here.allocatable["cpu"] == 1500
    here.set_state(None)
    assert here.allocatable == {}
