import pytest
from hypothesis import given

from schemas.base.quantities import parse_nanos, round_amount
from schemas.messages.pods import Container, HostPort, Pod
from streams.pods.kind import compute_demand
from tests.streams.builders import container, pod
from tests.streams.strategies import pods


def amounts(cpu: str | None = None, memory: str | None = None) -> dict[str, str]:
    return {k: v for k, v in (("cpu", cpu), ("memory", memory)) if v is not None}


def sidecar(cpu: str) -> Container:
    return container(amounts(cpu), amounts(cpu), restart_policy="Always")


def init(cpu: str) -> Container:
    return container(amounts(cpu), amounts(cpu))


@pytest.mark.parametrize(
    ("containers", "init_containers", "millicores"),
    [
        ([], [], None),
        ([container()], [], None),
        ([init("0")], [], 0),
        ([init("100m"), init("1")], [], 1100),
        # Rounded once, up, after an exact sum.
        ([init("0.5000004m"), init("0.4999995m")], [], 2),
        ([init("0.5m"), init("0.5m")], [], 1),
        ([init("1n")], [], 1),
        # An init container runs alone: the larger counts.
        ([init("1")], [init("3")], 3000),
        ([init("3")], [init("1")], 3000),
        ([init("1")], [init("2"), init("3"), init("1")], 3000),
        # Sidecars run together with the pod and with the init containers after them.
        ([init("1")], [sidecar("500m")], 1500),
        ([init("1")], [sidecar("500m"), init("3")], 3500),
        ([init("1")], [init("3"), sidecar("500m")], 3000),
        ([init("1")], [sidecar("1"), sidecar("2")], 4000),
        ([], [sidecar("1"), init("4"), sidecar("2")], 5000),
        # Capped where Kubernetes ends.
        ([init("9e18"), init("9e18")], [], 2**63 - 1),
    ],
)
def test_containers_add_up_as_kubernetes_adds_them(
    containers: list[Container], init_containers: list[Container], millicores: int | None
) -> None:
    demand = compute_demand(
        pod(containers=tuple(containers), init_containers=tuple(init_containers))
    )
    assert demand.requests.get("cpu") == millicores
    assert demand.limits.get("cpu") == millicores


def test_overhead_is_added_to_requests_and_to_limits_that_exist() -> None:
    of = pod(
        containers=(container(amounts("1", "1Gi"), amounts(cpu="2")),),
        overhead={"cpu": "50m", "memory": "1Mi", "example.com/x": "1"},
    )
    demand = compute_demand(of)
    assert demand.requests == {"cpu": 1050, "memory": 2**30 + 2**20, "example.com/x": 1}
    assert demand.limits == {"cpu": 2050}


@pytest.mark.parametrize(
    ("containers", "init_containers", "best_effort"),
    [
        ((), (), True),
        ((container(),), (), True),
        ((container(amounts("0", "0")),), (), True),
        ((container({"example.com/gpu": "1"}),), (), True),
        ((container(amounts("1m")),), (), False),
        ((container({}, amounts(memory="1")),), (), False),
        ((container(),), (container(amounts("1m")),), False),
    ],
)
def test_any_cpu_or_memory_makes_a_pod_more_than_best_effort(
    containers: tuple[Container, ...], init_containers: tuple[Container, ...], best_effort: bool
) -> None:
    of = pod(containers=containers, init_containers=init_containers, overhead={"cpu": "1"})
    assert compute_demand(of).best_effort is best_effort


def test_host_ports_are_those_of_containers_and_sidecars() -> None:
    web, beside, once = (HostPort(port=port) for port in (80, 81, 82))
    of = pod(
        containers=(container(host_ports=(web,)),),
        init_containers=(
            container(host_ports=(once,)),
            container(host_ports=(beside,), restart_policy="Always"),
        ),
    )
    assert compute_demand(of).host_ports == (web, beside)


@given(pods())
def test_no_part_of_a_pod_asks_for_more_than_the_whole(of: Pod) -> None:
    demand = compute_demand(of)
    for field, totals in (("requests", demand.requests), ("limits", demand.limits)):
        for part in (*of.containers, *of.init_containers):
            for resource, text in getattr(part, field).items():
                assert totals[resource] >= round_amount(resource, parse_nanos(text))


MI = 2**20


@pytest.mark.parametrize(
    ("containers", "init_containers", "assumed"),
    [
        ([], [], {}),
        ([container()], [], {"cpu": 100, "memory": 200 * MI}),
        ([container(amounts("1"))], [], {"memory": 200 * MI}),
        # A request of 0 is one.
        ([container(amounts("0", "0"))], [], {}),
        ([container(amounts("1", "1Gi")), container()], [], {"cpu": 100, "memory": 200 * MI}),
        # An init container without requests adds nothing to larger ones.
        ([container(amounts("1", "1Gi"))], [container()], {}),
        ([container(amounts("50m", "1Gi"))], [container()], {"cpu": 50}),
        ([container(amounts("1", "1Gi"))], [sidecar("1")], {"memory": 200 * MI}),
    ],
)
def test_containers_without_a_request_are_assumed_to_have_a_small_one(
    containers: list[Container], init_containers: list[Container], assumed: dict[str, int]
) -> None:
    of = pod(
        containers=tuple(containers),
        init_containers=tuple(init_containers),
        overhead={"cpu": "50m", "memory": "1Mi"},
    )
    assert compute_demand(of).assumed == assumed
