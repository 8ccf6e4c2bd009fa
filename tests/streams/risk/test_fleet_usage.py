from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import OverutilizationRiskArgs
from schemas.policy.sections.overutilization_risk import RiskResource
from streams.risk.fleet_usage import (
    FleetUsage,
    compute_fleet_usage,
    compute_pod_sums,
    decode_fleet_usage,
    encode_fleet_usage,
    get_prior_usage,
)
from streams.risk.lifetimes import PARTS

_CPU = OverutilizationRiskArgs(resources=(RiskResource(name="cpu"),))


def _sums(minutes: int, mean: int, deviation: int = 0, demand: int = 1_000) -> tuple[int, ...]:
    return compute_pod_sums(minutes, mean * PARTS, deviation * PARTS, demand)


def test_before_pods_are_measured_the_priors_hold() -> None:
    assert (
        compute_fleet_usage([], _CPU)
        == get_prior_usage(_CPU)
        == (FleetUsage(850_000, 40_000, 302_500),)
    )


def test_each_pod_of_five_minutes_counts_once_for_usage() -> None:
    pods = [_sums(5, 100), _sums(5_000, 300, demand=3_000), _sums(4, 1_000)]
    (figures,) = compute_fleet_usage(pods, _CPU)
    assert figures == FleetUsage((20 * 850_000 + 100_000 + 100_000) // 22, 40_000, 302_500)


def test_variance_and_spread_come_from_thirty_pods_of_fifteen_minutes() -> None:
    pods = [_sums(15, 200 if number % 2 else 400, 100) for number in range(30)]
    (few,) = compute_fleet_usage(pods[1:], _CPU)
    assert few[1:] == (40_000, 302_500)
    (many,) = compute_fleet_usage(pods, _CPU)
    assert many[1:] == (10_000, 10_000)


def test_pods_with_tiny_requests_count_until_thirty_others_are_measured() -> None:
    tiny = [_sums(60, 1_250, 500, demand=250)] * 40
    asking = [_sums(60, 300, 100)] * 29
    (few,) = compute_fleet_usage(asking, _CPU, tiny)
    assert few == compute_fleet_usage([*asking, *tiny], _CPU)[0]
    (enough,) = compute_fleet_usage([*asking, asking[0]], _CPU, tiny)
    assert enough == compute_fleet_usage([*asking, asking[0]], _CPU)[0]
    assert enough.usage_ppm < 600_000 < few.usage_ppm


def test_a_pod_counts_at_most_five_times_its_demand() -> None:
    assert _sums(20, 8_000, 8_000, demand=1)[1:] == (
        5_000_000,
        1,
        5_000_000,
        5_000_000**2,
        25_000_000,
    )
    assert _sums(20, 8_000, demand=0) == (0,) * 6


_NODES = st.lists(
    st.builds(_sums, st.integers(0, 60), st.integers(0, 9_000), st.integers(0, 9_000)), max_size=40
)


@given(_NODES, st.randoms())
def test_the_order_of_nodes_does_not_matter(nodes: list[tuple[int, ...]], random: object) -> None:
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert compute_fleet_usage(shuffled, _CPU) == compute_fleet_usage(nodes, _CPU)


@given(_NODES)
def test_figures_are_restored_from_their_row(nodes: list[tuple[int, ...]]) -> None:
    figures = compute_fleet_usage(nodes, _CPU)
    assert decode_fleet_usage(encode_fleet_usage(figures, _CPU), _CPU) == figures
