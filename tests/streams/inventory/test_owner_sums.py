"""A correction that follows pods and figures is what it would be worked out anew."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.pods import OwnerReference, Pod
from streams.inventory.fleet_usage import Fleet, votes
from streams.inventory.life import PARTS
from streams.inventory.owner_sums import SUMS, OwnerSums
from streams.inventory.owner_usage import OwnerUsage
from tests.streams.cluster.builders import pod

_FLEET = (Fleet(500_000, 40_000, 60_000),)
_LIGHTER = (Fleet(400_000, 30_000, 50_000),)
_OWNERS = 12


def _of(number: int) -> Pod:
    name = f"set-{number}"
    controller = OwnerReference(kind="StatefulSet", name=name, uid=name, controller=True)
    return pod("a", owners=(controller,))


def _known() -> OwnerUsage:
    """Owners of five pods each, alike."""
    owners = OwnerUsage(1)
    for number in range(_OWNERS):
        vote = votes(60, 80 * number * PARTS, 100 * PARTS, 1_000)
        for _ in range(5):
            owners.vote(f"default/StatefulSet/set-{number}", vote)
    owners.renew(_FLEET, 0, None)
    return owners


def _share(amount: int) -> list[int]:
    return [amount * PARTS, 0, amount * amount, 0, amount * amount]


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, _OWNERS), st.integers(0, 4_000)),
        st.just(None),
    ),
    max_size=30,
)


@given(_STEPS, st.booleans())
def test_a_correction_is_the_same_however_it_came_about(
    steps: list[tuple[int, int] | None], asked: bool
) -> None:
    owners = _known()
    kept, now_ms = OwnerSums(owners), 0
    counted: list[tuple[int, int]] = []
    for step in steps:
        if asked:
            kept.corrected([(0.0, 0.0)])
        if step is None:
            now_ms += 300_000
            owners.renew(_LIGHTER if now_ms % 600_000 else _FLEET, now_ms, now_ms - 300_000)
        elif step in counted:
            kept.count(_of(step[0]), _share(step[1]), (), -1)
            counted.remove(step)
        else:
            kept.count(_of(step[0]), _share(step[1]), (), 1)
            counted.append(step)
    anew = OwnerSums(owners)
    for number, amount in counted:
        anew.count(_of(number), _share(amount), (), 1)
    assert kept.corrected([(9e9, 9e15)]) == anew.corrected([(9e9, 9e15)])


def test_a_pod_counts_with_what_its_owner_is_expected_to_use() -> None:
    owners = _known()
    sums = OwnerSums(owners)
    sums.count(_of(11), _share(1_000), (), 1)
    (own,) = owners.expected("default/StatefulSet/set-11")
    fleet = _FLEET[0]
    assert len(_share(1_000)) == SUMS
    ((mean, variance),) = sums.corrected([(500.0, 100_000.0)])
    assert abs(mean - own.usage_ppm / 1_000) < 1e-6
    known = own.variance_ppm + own.spread_ppm
    assert abs(variance - known) < 1e-6
    assert known < fleet.variance_ppm + fleet.spread_ppm


def test_a_pod_of_nobody_changes_nothing() -> None:
    sums = OwnerSums(_known())
    sums.count(pod("a"), _share(1_000), (), 1)
    assert sums.corrected([(500.0, 100_000.0)]) == [(500.0, 100_000.0)]


def test_votes_of_a_node_that_is_counted_anew_are_taken_back() -> None:
    owners = OwnerUsage(1)
    sums = OwnerSums(owners)
    sums.count(_of(1), _share(1_000), votes(60, 5, 5, 1_000), 1)
    assert owners.living
    sums.clear()
    assert owners.living == {}
