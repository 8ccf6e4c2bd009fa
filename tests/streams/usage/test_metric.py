import pytest

from schemas.base.message import AMOUNT_MAX
from schemas.messages.metrics import (
    HostApplicationMetric,
    NodeMetric,
    PodLifetimes,
)
from schemas.policy import Policy
from streams.inventory.inventory import Inventory
from streams.usage.estimate import Estimator
from streams.usage.metric import MetricVectors, Reading, check_amounts, drop_lifetimes
from tests.streams.builders import aggregated, load_args, metric, pod_metric


def vectors(**fields: object) -> MetricVectors:
    report: NodeMetric = metric(cpu=1000, memory=10, **fields)  # type: ignore[arg-type]
    return MetricVectors(report, Estimator(load_args(), "koordinator"))


ENTRIES = (
    aggregated(300, p95={"cpu": 3000, "memory": 30}, p50={"cpu": 1}),
    aggregated(600, p95={"cpu": 6000}, avg={}),
    aggregated(0, p99={"memory": 9}),
)


@pytest.mark.parametrize(
    ("aggregation", "duration_ms", "expected"),
    [
        ("p95", 600_000, Reading((6000, 30), (), ((1, "p95 over 5m"),))),
        ("p95", 1_800_000, Reading((6000, 30), (), ((0, "p95 over 10m"), (1, "p95 over 5m")))),
        ("p50", 300_000, Reading((1, 10), (), ((1, "mean"),))),
        ("p42", 0, Reading((1000, 10), (), ((0, "mean"), (1, "mean")))),
    ],
)
def test_with_loadstream_rules_each_resource_uses_the_next_shorter_window_or_the_mean(
    aggregation: str, duration_ms: int, expected: Reading
) -> None:
    report = metric(cpu=1000, memory=10, aggregated=ENTRIES)
    assert MetricVectors(report, Estimator(load_args())).read(aggregation, duration_ms) == expected


def test_a_resource_without_a_mean_is_unknown() -> None:
    report = metric(usage={"memory": 5}, aggregated=(aggregated(300, p95={"cpu": 7}),))
    vectors = MetricVectors(report, Estimator(load_args()))
    assert vectors.read(None, 0) == Reading((0, 5), (0,))
    assert vectors.read("p95", 0) == Reading((7, 5), (), ((1, "mean"),))


def test_pods_are_known_by_their_last_usage_and_as_prod_if_any_entry_says_so() -> None:
    pods = (
        pod_metric("a", cpu=1),
        pod_metric("a", "koord-batch", cpu=2),
        pod_metric("a", "koord-prod"),
        pod_metric("b", "koord-mid", memory=5),
        pod_metric("c"),
    )
    assert vectors(pods=pods).pods == {
        ("default", "a"): ((2, 0), True),
        ("default", "b"): ((0, 5), False),
    }


@pytest.mark.parametrize(
    ("where", "fields"),
    [
        ("usage", {"usage": {"cpu": 1, "memory": AMOUNT_MAX + 1}}),
        ("system_usage", {"system_usage": {"cpu": 2**63 - 1}}),
        ("aggregated p95", {"aggregated": (aggregated(300, p95={"cpu": AMOUNT_MAX + 1}),)}),
        ("usage of a pod", {"pods": (pod_metric("a", cpu=1), pod_metric("b", memory=2**62))}),
        (
            "usage of a host application",
            {"host_applications": (HostApplicationMetric(name="h", usage={"cpu": 2**60}),)},
        ),
    ],
)
def test_an_impossible_amount_is_named(where: str, fields: dict[str, object]) -> None:
    refusal = check_amounts(metric(**fields))  # type: ignore[arg-type]
    assert refusal is not None
    assert refusal.category == "limit"
    assert refusal.reason.startswith(f"{where}, ")
    assert str(AMOUNT_MAX) in refusal.reason


def test_a_metric_is_kept_without_its_lifetimes() -> None:
    plain = metric(pods=(pod_metric("a", cpu=1), pod_metric("b", cpu=2)))
    lifetimes = PodLifetimes(minutes=(5, 0), mean={"cpu": (3, -1)}, deviation={"cpu": (1, -1)})
    inventory = Inventory(Policy())
    inventory.apply_metric(plain.model_copy(update={"lifetimes": lifetimes}))
    assert inventory.nodes["node-1"].usage.metric == plain
    assert drop_lifetimes(plain) is plain
