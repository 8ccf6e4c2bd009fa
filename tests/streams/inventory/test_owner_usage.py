from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.pods import OwnerReference
from streams.inventory import owner_usage
from streams.inventory.fleet_usage import RENEWAL_MS, Fleet, votes
from streams.inventory.life import PARTS
from streams.inventory.owner_usage import (
    MILLI,
    OwnerUsage,
    alike_ppm,
    owner_figures,
    owner_of,
)
from tests.streams.cluster.builders import pod

_FLEET = Fleet(500_000, 40_000, 60_000)
_WEB = "default/Deployment/web"


def _vote(mean: int, deviation: int = 100, minutes: int = 60) -> tuple[int, ...]:
    """Of a pod that requests 1,000 and used so much on average."""
    return votes(minutes, mean * PARTS, deviation * PARTS, 1_000)


def _learned(owners: Sequence[Sequence[int]]) -> OwnerUsage:
    usage = OwnerUsage(1)
    for number, means in enumerate(owners):
        for mean in means:
            usage.vote(f"default/Deployment/{number}", _vote(mean))
    usage.renew((_FLEET,), 0, None)
    return usage


_ALIKE = [[100 * (number % 10)] * 5 for number in range(20)]
_UNLIKE = [[100 * ((number + 2 * turn) % 10) for turn in range(5)] for number in range(20)]


def test_owners_whose_pods_are_alike_say_what_their_next_pod_uses() -> None:
    usage = _learned(_ALIKE)
    (heavy,) = usage.expected("default/Deployment/9")
    (light,) = usage.expected("default/Deployment/0")
    assert 890_000 < heavy.usage_ppm <= 900_000
    assert 0 <= light.usage_ppm < 10_000
    assert heavy.spread_ppm < _FLEET.spread_ppm // 10
    assert 10_000 <= heavy.variance_ppm < 11_000


def test_owners_whose_pods_are_unlike_each_other_say_what_the_fleet_says() -> None:
    usage = _learned(_UNLIKE)
    assert usage.expected("default/Deployment/9") == ()
    figures = usage.owners["default/Deployment/9"].figures[0]
    assert (figures.weight_ppm, figures.expected) == (0, _FLEET)


def test_when_pods_were_measured_last_is_written_also_where_the_figures_stay() -> None:
    usage = _learned(_ALIKE)
    usage.changed.clear()
    before = usage.owners["default/Deployment/9"].figures
    usage.renew((_FLEET,), RENEWAL_MS, 0)
    assert usage.owners["default/Deployment/9"].figures == before
    assert usage.owners["default/Deployment/9"].seen_at_ms == RENEWAL_MS
    assert "default/Deployment/9" in usage.changed


def test_of_an_owner_that_is_not_known_the_fleet_speaks() -> None:
    assert _learned(_ALIKE).expected("default/Deployment/new") == ()
    assert _learned(_ALIKE).expected(None) == ()


def test_an_owner_has_more_weight_with_more_pods_and_less_the_more_they_differ() -> None:
    def weight(pods: int, unlike_ppm: int) -> int:
        squares = pods * MILLI * (250_000 + unlike_ppm)
        total = (pods * MILLI, pods * MILLI * 500_000, squares, 0)
        return owner_figures(total, _FLEET, 500_000).weight_ppm

    assert 0 < weight(1, 0) < weight(2, 0) < weight(20, 0) < 1_000_000
    assert weight(20, 200_000) < weight(20, 20_000) < weight(20, 0)


def test_too_few_pods_say_nothing_of_how_alike_owners_are() -> None:
    assert _learned([[100] * 10, [900] * 10]).expected("default/Deployment/1") == ()
    assert _learned([[500] * 100]).expected("default/Deployment/0") == ()


def test_a_pod_of_less_than_15_minutes_has_no_vote() -> None:
    usage = OwnerUsage(1)
    usage.vote(_WEB, _vote(500, minutes=14))
    usage.remember(_WEB, 14, _vote(500, minutes=14), 0)
    usage.renew((_FLEET,), 0, None)
    assert usage.owners == {}


@pytest.mark.parametrize(
    ("kind", "name", "labels", "expected"),
    [
        ("ReplicaSet", "web-6d4", {"pod-template-hash": "6d4"}, "default/Deployment/web"),
        ("ReplicaSet", "web-6d4", {}, "default/ReplicaSet/web-6d4"),
        ("Job", "nightly-29123456", {}, "default/CronJob/nightly"),
        ("Job", "once", {}, "default/Job/once"),
        ("StatefulSet", "db", {}, "default/StatefulSet/db"),
    ],
)
def test_an_owner_outlives_its_revisions_and_runs(
    kind: str, name: str, labels: dict[str, str], expected: str
) -> None:
    owner = OwnerReference(kind=kind, name=name, uid="o1", controller=True)
    assert owner_of(pod("a", namespace="default", labels=labels, owners=(owner,))) == expected


def test_a_pod_that_nothing_controls_has_no_owner() -> None:
    assert owner_of(pod("a")) is None


# --- forgetting -----------------------------------------------------------------------------------


def _remembered(usage: OwnerUsage) -> int:
    known = usage.owners.get(_WEB)
    return 0 if known is None else sum(gone[0] for gone in known.past)


@given(
    st.integers(15, 50_000),
    st.lists(st.integers(0, 40 * RENEWAL_MS), min_size=1, max_size=10),
)
def test_what_is_gone_is_only_ever_forgotten(minutes: int, waits_ms: list[int]) -> None:
    usage, now_ms = OwnerUsage(1), 0
    usage.remember(_WEB, minutes, _vote(500, minutes=minutes), 0)
    left = _remembered(usage)
    assert left == MILLI
    for wait_ms in waits_ms:
        usage.renew((_FLEET,), now_ms + wait_ms, now_ms)
        now_ms += wait_ms
        assert _remembered(usage) <= left
        left = _remembered(usage)


def test_pods_that_lived_for_long_are_remembered_for_longer() -> None:
    day_ms = 24 * 3_600_000
    left = []
    for minutes in (60, 1_440, 10_080):
        usage = OwnerUsage(1)
        usage.remember(_WEB, minutes, _vote(500, minutes=minutes), 0)
        usage.renew((_FLEET,), day_ms, 0)
        left.append(_remembered(usage))
    assert left == [367, 866, 964]  # of 1,000: e^-1, e^-(1/7), e^-(1/28)


def test_an_owner_of_whom_next_to_nothing_is_left_is_forgotten_and_its_row_goes() -> None:
    usage = OwnerUsage(1)
    usage.remember(_WEB, 60, _vote(500), 0)
    usage.changed.clear()
    usage.renew((_FLEET,), 4 * 24 * 3_600_000, 0)
    assert usage.owners == {}
    assert list(usage.changed) == [_WEB]


def test_of_more_owners_than_the_limit_those_seen_longest_ago_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner_usage, "OWNERS_MAX", 2)
    usage = OwnerUsage(1)
    for number in range(3):
        usage.remember(f"default/Job/{number}", 60, _vote(500), number)
    usage.renew((_FLEET,), RENEWAL_MS, 0)
    assert sorted(usage.owners) == ["default/Job/1", "default/Job/2"]


def test_of_owners_beyond_the_limit_no_row_is_removed_that_never_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = _learned(_ALIKE[:3])
    usage.changed.clear()
    monkeypatch.setattr(owner_usage, "OWNERS_MAX", 2)
    usage.renew((_FLEET,), RENEWAL_MS, 0)
    assert len(usage.changed) == 3  # the third has a row, which goes
    usage.changed.clear()
    usage.renew((_FLEET,), 2 * RENEWAL_MS, RENEWAL_MS)
    assert sorted(usage.changed) == sorted(usage.owners)


# --- invariants -----------------------------------------------------------------------------------

_OWNERS = st.lists(st.lists(st.integers(0, 4_000), max_size=12), min_size=1, max_size=12)


@given(_OWNERS, st.randoms())
def test_no_order_of_pods_and_owners_shows(owners: list[list[int]], random: object) -> None:
    said = [(f"default/Job/{at}", mean) for at, means in enumerate(owners) for mean in means]
    shuffled = list(said)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    found = []
    for order in (said, shuffled):
        usage = OwnerUsage(1)
        for owner, mean in order:
            usage.vote(owner, _vote(mean))
        usage.renew((_FLEET,), 0, None)
        found.append({name: known.figures for name, known in usage.owners.items()})
    assert found[0] == found[1]


@given(_OWNERS)
def test_what_is_expected_lies_between_the_owner_and_the_fleet(owners: list[list[int]]) -> None:
    for known in _learned(owners).owners.values():
        (each,) = known.figures
        assert 0 <= each.weight_ppm <= 1_000_000
        low, high = sorted((each.own.usage_ppm, _FLEET.usage_ppm))
        assert low <= each.expected.usage_ppm <= high + 1
        assert each.expected.variance_ppm >= 0
        assert each.expected.spread_ppm >= 0


@given(st.integers(0, 2**32 - 1))
def test_owners_that_are_drawn_without_regard_to_pods_have_next_to_no_weight(seed: int) -> None:
    import random

    draw = random.Random(seed)
    owners = [[draw.randint(0, 1_000) for _ in range(10)] for _ in range(60)]
    totals = [
        (
            MILLI * 10,
            MILLI * 1_000 * sum(means),
            MILLI * sum(mean * mean for mean in means),
            0,
        )
        for means in owners
    ]
    assert alike_ppm(totals) < 100_000


def test_votes_that_are_taken_back_leave_nothing() -> None:
    usage = OwnerUsage(1)
    usage.vote(_WEB, _vote(500))
    usage.vote(_WEB, [-each for each in _vote(500)])
    assert usage.living == {}
