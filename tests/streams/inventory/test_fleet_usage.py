from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import OverutilizationRiskArgs
from schemas.policy.overutilization import RiskResource
from streams.inventory.fleet_usage import Fleet, fleet, prior, published, read, votes
from streams.inventory.life import PARTS

_CPU = OverutilizationRiskArgs(resources=(RiskResource(name="cpu"),))


def _vote(minutes: int, mean: int, deviation: int = 0, nominal: int = 1_000) -> tuple[int, ...]:
    return votes(minutes, mean * PARTS, deviation * PARTS, nominal)


def test_before_pods_are_measured_the_priors_hold() -> None:
    assert fleet([], _CPU) == prior(_CPU) == (Fleet(850_000, 40_000, 302_500),)


def test_each_pod_of_five_minutes_has_one_vote_on_usage() -> None:
    pods = [_vote(5, 100), _vote(5_000, 300, nominal=3_000), _vote(4, 1_000)]
    (figures,) = fleet(pods, _CPU)
    assert figures == Fleet((20 * 850_000 + 100_000 + 100_000) // 22, 40_000, 302_500)


def test_variance_and_spread_come_from_thirty_pods_of_fifteen_minutes() -> None:
    pods = [_vote(15, 200 if number % 2 else 400, 100) for number in range(30)]
    (few,) = fleet(pods[1:], _CPU)
    assert few[1:] == (40_000, 302_500)
    (many,) = fleet(pods, _CPU)
    assert many[1:] == (10_000, 10_000)


def test_pods_that_ask_for_next_to_nothing_count_until_thirty_others_have_a_vote() -> None:
    others = [_vote(60, 1_250, 500, nominal=250)] * 40
    asking = [_vote(60, 300, 100)] * 29
    (few,) = fleet(asking, _CPU, others)
    assert few == fleet([*asking, *others], _CPU)[0]
    (enough,) = fleet([*asking, asking[0]], _CPU, others)
    assert enough == fleet([*asking, asking[0]], _CPU)[0]
    assert enough.usage_ppm < 600_000 < few.usage_ppm


def test_a_pod_that_requests_next_to_nothing_has_a_bounded_vote() -> None:
    assert _vote(20, 8_000, 8_000, nominal=1)[1:] == (
        5_000_000,
        1,
        5_000_000,
        5_000_000**2,
        25_000_000,
    )
    assert _vote(20, 8_000, nominal=0) == (0,) * 6


_NODES = st.lists(
    st.builds(_vote, st.integers(0, 60), st.integers(0, 9_000), st.integers(0, 9_000)), max_size=40
)


@given(_NODES, st.randoms())
def test_no_order_of_nodes_shows(nodes: list[tuple[int, ...]], random: object) -> None:
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fleet(shuffled, _CPU) == fleet(nodes, _CPU)


@given(_NODES)
def test_figures_come_back_from_their_row(nodes: list[tuple[int, ...]]) -> None:
    figures = fleet(nodes, _CPU)
    assert read(published(figures, _CPU), _CPU) == figures


def test_the_policy_says_what_is_expected_before() -> None:
    args = OverutilizationRiskArgs.model_validate(
        {
            "resources": [{"name": "cpu"}],
            "usagePriorPercent": 50,
            "usagePriorPods": 1,
            "deviationPriorPercent": 10,
            "spreadPriorPercent": 30,
        }
    )
    assert prior(args) == (Fleet(500_000, 10_000, 90_000),)
    (figures,) = fleet([_vote(5, 100)], args)
    assert figures.usage_ppm == 300_000
