"""Placing by requests alone, for comparison."""

from schemas.messages.pods import Pod
from simulation.cluster.baseline_requests import most_free, usage_by_requests
from simulation.cluster.kubelet import START_MS, Kubelets
from simulation.cluster.machines import Machine
from tests.connectors.ports.sink_contract import NOW_MS
from tests.simulation.cluster.builders import GIB, MINUTE_MS, machines, pod, readings

MACHINES = [Machine("n1", 16_000, 64 * GIB), Machine("n2", 32_000, 64 * GIB)]


def test_the_machine_with_the_largest_free_share_is_preferred() -> None:
    kubelets = Kubelets(MACHINES)
    chosen = most_free(MACHINES, kubelets, pod("a", cores=4))
    # (12/16 + 60/64) / 2 is less than (28/32 + 60/64) / 2.
    assert chosen is MACHINES[1]


def test_of_equal_machines_the_first_is_taken() -> None:
    twins = machines(2)
    assert most_free(twins, Kubelets(twins), pod("a")) is twins[0]


def test_a_label_that_a_pod_insists_on_is_respected() -> None:
    machines = [Machine("n1", 32_000, 64 * GIB), Machine("n2", 16_000, 64 * GIB, labels={"d": "s"})]
    wanting = pod("a", pod=Pod(namespace="ns", name="a", uid="a", node_selector={"d": "s"}))
    usages = list(usage_by_requests(machines, [wanting], readings(10, 1000, 1000), NOW_MS + 10**8))
    last = {machine: usage for _, machine, usage in usages[-2:]}
    assert last[0]["cpu"] == 1000
    assert last[1]["cpu"] > 2000


def test_measured_usage_is_not_looked_at_and_usage_follows_the_pods() -> None:
    measured = readings(30, 1000, 1000)
    usages = list(usage_by_requests(MACHINES, [pod("a")], measured, NOW_MS + 29 * MINUTE_MS))
    assert len(usages) == 60
    last = {machine: usage for _, machine, usage in usages[-2:]}
    assert last[0]["cpu"] == 1000
    assert last[1]["cpu"] > 2500


def test_what_fits_nowhere_waits_until_something_has_gone() -> None:
    long, short = (
        pod("long", cores=30),
        pod("short", cores=30, life_ms=10 * MINUTE_MS, at_ms=NOW_MS),
    )
    machines = [MACHINES[1]]
    measured = readings(40, 1000)
    plans = [short, long]
    usages = [u["cpu"] for _, _, u in usage_by_requests(machines, plans, measured, NOW_MS + 10**8)]
    # One after the other and never both: each uses 15 cores.
    assert max(usages) < 20_000
    assert usages[5] > 10_000
    gone = (START_MS + 10 * MINUTE_MS) // MINUTE_MS + 1
    assert usages[gone + 2] > 10_000


def test_a_pod_that_needs_what_is_not_supported_is_left_out() -> None:
    needing = pod("a", pod=Pod(namespace="ns", name="a", uid="a", unsupported=("zonal volume",)))
    usages = list(usage_by_requests(MACHINES, [needing], readings(10, 1000, 1000), NOW_MS + 10**8))
    assert {usage["cpu"] for _, _, usage in usages} == {1000}
