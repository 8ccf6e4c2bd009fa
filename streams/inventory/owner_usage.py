"""What the pods of each owner use of their requests: what is expected of its further pods.

An owner's pods say most of its next pod where they are alike, and nothing where they are not. How
alike they are is measured over all owners (analysis of variance with one way): with N pods of k
owners, `between` and `within` the sums of squares of their shares,

    F     = (between / (k - 1)) / (within / (N - k))  -  2 sqrt(2 / (k - 1) + 2 / (N - k))
    alike = (F - 1) / (F - 1 + pods an owner)                                    at least 0

alike is the part of the spread among pods that lies between owners. Twice the error of F is taken
off, so that owners who are not alike are taken for such. With S the fleet's spread, B = alike S and
W = (1 - alike) S, an owner of n pods with the mean share r, the mean variance v and the sum Q of
squared differences from r is expected to have (empirical Bayes)

    Wo       = (10 W + alike Q) / (10 + alike (n - 1))
    w        = n B / (n B + Wo)
    usage    = fleet's usage    + w (r - fleet's usage)
    variance = fleet's variance + w (v - fleet's variance)
    spread   = Wo + (1 - w) B                             what is not known of a pod's mean

Where alike is 0 these are the fleet's figures. They are worked out with those of the fleet, and
hold as long. A pod has a vote once it has been measured for 15 minutes. One that is gone is
forgotten by age, sooner where it lived for a short time: of those that lived for an hour a mean of
a day is remembered, of those that lived for a day a week, of others four weeks.

Sums are integers, so no order of events shows in them; figures follow from them with + - x / and
sqrt alone.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from operator import add
from typing import NamedTuple

from schemas.pods import Pod
from streams.inventory.fleet_usage import NO_VOTES, RENEWAL_MS, VOTES, Fleet
from streams.inventory.owners import controller

#: Owners of one cluster whose pods are remembered; beyond, those seen longest ago are forgotten.
#: Their figures and rows take together a quarter of a second every five minutes.
OWNERS_MAX = 5_000
#: Longest life and how long a pod is remembered on average, both in minutes.
HORIZONS = ((60, 1_440), (1_440, 10_080), (None, 40_320))
#: Votes of pods that are gone are kept in thousandths; an owner with less than a tenth of a vote is
#: forgotten.
MILLI, FORGOTTEN_BELOW = 1_000, 100
#: Pods besides those of as many owners from which it is known how alike owners' pods are.
FREEDOM_MIN = 30
#: How many pods of an owner weigh as much as all owners' on how unlike its pods are.
UNLIKE_PRIOR_PODS = 10
#: Sums a resource of pods that are gone: pods, their shares, squares of these, their variances.
SUMS = 4

_MILLION = 1_000_000
_JOB_OF_CRON_JOB = re.compile(r"-[0-9]{8,}$")
_TEMPLATE_HASH = "pod-template-hash"
#: An owner as a pod's annotation names it; no longer than its row can be.
_NAMED = re.compile(r"[^/]{1,63}/[^/]{0,512}/.{0,512}", re.DOTALL)

#: Sums over pods that are gone, one entry a horizon; each of shape (SUMS x resources,).
Past = tuple[tuple[int, ...], ...]


class OwnerFigures(NamedTuple):
    """Figures of one owner and resource."""

    pods_milli: int
    """Pods with a vote, in thousandths: those that are gone count less with age."""
    own: Fleet
    """What its pods say: mean share, mean variance, variance among their mean shares."""
    weight_ppm: int
    """Weight of that against the fleet's figures."""
    expected: Fleet
    """What is expected of its further pods."""


@dataclass(slots=True)
class Owner:
    """What is remembered of one owner."""

    seen_at_ms: int
    """The log's time at which pods of it were measured last."""
    past: Past
    figures: tuple[OwnerFigures, ...] = ()
    """In force, one entry a resource; empty: nothing is known but the fleet's."""
    expected: tuple[Fleet, ...] = ()
    """Of those, what is expected; empty: what is of the fleet."""


#: Uids of what stands in for pods begin so; no uid of Kubernetes does.
STAND_IN_PREFIX = "reserved-"
#: On what stands in for a pod: the pod's owner, as `owner_of` names it.
USAGE_OWNER_ANNOTATION = "loadstream/usage-owner"


def owner_of(pod: Pod) -> str | None:
    """The owner by namespace, kind and name, which outlives its single runs and revisions.

    A ReplicaSet counts as its Deployment and a Job of a CronJob as that, by the names that
    Kubernetes gives them. What stands in for a replacement is nobody's replica, and says itself by
    whose pods its usage is expected. None: nothing controls the pod, or what does is named as no
    object of Kubernetes is.
    """
    owner = controller(pod)
    if owner is None:
        said = pod.annotations.get(USAGE_OWNER_ANNOTATION, "")
        stands_in = pod.uid.startswith(STAND_IN_PREFIX)
        return said if stands_in and _NAMED.fullmatch(said) else None
    kind, name = owner.kind, owner.name
    if "/" in kind:
        return None
    if kind == "ReplicaSet" and _TEMPLATE_HASH in pod.labels:
        short = name.removesuffix(f"-{pod.labels[_TEMPLATE_HASH]}")
        if short != name:
            kind, name = "Deployment", short
    elif kind == "Job":
        short = _JOB_OF_CRON_JOB.sub("", name)
        if short != name:
            kind, name = "CronJob", short
    return f"{pod.namespace}/{kind}/{name}"


class OwnerUsage:
    """All owners of a cluster."""

    def __init__(self, resources: int) -> None:
        """No owner is known; `resources` is how many resources there are."""
        self._resources = resources
        self.owners: dict[str, Owner] = {}
        self.living: dict[str, tuple[int, ...]] = {}
        """Votes of the pods that are there, as the fleet's are."""
        self.changed: dict[str, None] = {}
        """Owners whose rows are to be written."""
        self.version = 0
        """Grows whenever anything may be expected otherwise than before, of owners or the fleet."""
        self.fleet: tuple[Fleet, ...] = ()
        """The fleet's figures with which those of owners were worked out."""

    def expected(self, owner: str | None) -> tuple[Fleet, ...]:
        """What is expected of an owner's pods, by resource; empty: what is of the fleet's."""
        found = None if owner is None else self.owners.get(owner)
        return () if found is None else found.expected

    def beyond_fleet(self, owner: str) -> list[tuple[int, int, int]]:
        """By how much that is more than of the fleet's; empty: it is the same."""
        return [
            (
                own.usage_ppm - fleet.usage_ppm,
                own.variance_ppm - fleet.variance_ppm,
                own.spread_ppm - fleet.spread_ppm,
            )
            for own, fleet in zip(self.expected(owner), self.fleet, strict=False)
        ]

    # --- votes ------------------------------------------------------------------------------------

    def vote(self, owner: str, votes: Iterable[int]) -> None:
        """A pod that is there has votes; negative ones take those back that it had."""
        before = self.living.get(owner)
        after = tuple(votes) if before is None else tuple(map(add, before, votes))
        self.living[owner] = after
        if not any(after):
            del self.living[owner]

    def remember(self, owner: str, minutes: int, votes: tuple[int, ...], now_ms: int) -> None:
        """A pod that was measured for some minutes is gone; `now_ms`: the log's time."""
        gone: list[int] = []
        for index in range(self._resources):
            gone += _in_milli(votes[VOTES * index :])
        if not any(gone):
            return
        known = self.owners.setdefault(owner, Owner(now_ms, self._no_past()))
        horizon = _horizon(minutes)
        past = list(known.past)
        past[horizon] = tuple(map(add, past[horizon], gone))
        known.past = tuple(past)
        self.changed[owner] = None

    def _no_past(self) -> Past:
        return ((0,) * (SUMS * self._resources),) * len(HORIZONS)

    # --- figures ----------------------------------------------------------------------------------

    def renew(self, fleet: tuple[Fleet, ...], now_ms: int, last_ms: int | None) -> bool:
        """Work all figures out anew; answers whether what is expected has changed.

        Args:
            fleet: the fleet's figures as they are now, by resource.
            now_ms: the log's time.
            last_ms: its time when this was done last; none: never.
        """
        self.fleet = fleet
        self.version += 1
        self._fade(0 if last_ms is None else (now_ms - last_ms) // RENEWAL_MS)
        new = self._meet(now_ms)
        changed = self._forget()
        for owner in new - self.owners.keys():
            del self.changed[owner]  # one beyond the limit has no row
        totals = {owner: self._total(owner) for owner in self.owners}
        shares = [
            alike_ppm(total[SUMS * index : SUMS * index + SUMS] for total in totals.values())
            for index in range(self._resources)
        ]
        for owner, known in self.owners.items():
            figures = tuple(
                owner_figures(totals[owner][SUMS * index :][:SUMS], each, shares[index])
                for index, each in enumerate(fleet)
            )
            if figures != known.figures:
                known.figures = figures
                changed |= self._expect(known)
                self.changed[owner] = None
        return changed

    def _meet(self, now_ms: int) -> set[str]:
        """Take note of whose pods are there; answers with the owners that have no rows yet."""
        new = set()
        for owner, votes in self.living.items():
            if any(votes[VOTES * index + 2] for index in range(self._resources)):
                if owner not in self.owners:
                    self.owners[owner] = Owner(now_ms, self._no_past())
                    if owner not in self.changed:
                        new.add(owner)
                self.owners[owner].seen_at_ms = now_ms
                self.changed[owner] = None  # also where its figures stay: its row says when
        return new

    @staticmethod
    def _expect(known: Owner) -> bool:
        before = known.expected
        some = any(each.weight_ppm for each in known.figures)
        known.expected = tuple(each.expected for each in known.figures) if some else ()
        return known.expected != before

    def _total(self, owner: str) -> tuple[int, ...]:
        """Votes of pods that are there and of those that are gone."""
        total: list[int] = []
        votes = self.living.get(owner, NO_VOTES * self._resources)
        for index in range(self._resources):
            total += _in_milli(votes[VOTES * index :])
        for gone in self.owners[owner].past:
            total = list(map(add, total, gone))
        return tuple(total)

    def _fade(self, renewals: int) -> None:
        """Forget some of the pods that are gone."""
        if renewals <= 0:
            return
        left = []
        for _, horizon_minutes in HORIZONS:
            kept, once = 1.0, 1.0 - RENEWAL_MS / (60_000 * horizon_minutes)
            for _ in range(min(renewals, horizon_minutes)):
                kept *= once
            left.append(kept)
        for owner, known in self.owners.items():
            if any(map(any, known.past)):
                known.past = tuple(
                    tuple([int(each * kept) for each in gone])
                    for gone, kept in zip(known.past, left, strict=True)
                )
                self.changed[owner] = None

    def _forget(self) -> bool:
        """Forget owners with next to no votes left, and those beyond the limit; answers whether
        more was expected of one than of the fleet."""
        changed = False
        for owner, known in list(self.owners.items()):
            if owner not in self.living and all(
                sum(gone[SUMS * index] for gone in known.past) < FORGOTTEN_BELOW
                for index in range(self._resources)
            ):
                changed |= self._drop(owner)
        beyond = len(self.owners) - OWNERS_MAX
        if beyond > 0:
            oldest = sorted(self.owners, key=lambda owner: (self.owners[owner].seen_at_ms, owner))
            for owner in oldest[:beyond]:
                changed |= self._drop(owner)
        return changed

    def _drop(self, owner: str) -> bool:
        self.changed[owner] = None
        return bool(self.owners.pop(owner).expected)

    # --- rows -------------------------------------------------------------------------------------

    def take(self, owner: str, known: Owner, fleet: tuple[Fleet, ...]) -> None:
        """Take over what was written of an owner, and of the fleet."""
        self._expect(known)
        self.owners[owner] = known
        self.fleet = fleet
        self.version += 1

    def follow(self, before: "OwnerUsage") -> None:
        """Go on with what was remembered under other arguments."""
        self.owners, self.changed = before.owners, before.changed
        self.fleet = before.fleet
        self.version += 1


def _horizon(minutes: int) -> int:
    """The horizon of a pod that was measured for some minutes."""
    for index, (longest, _) in enumerate(HORIZONS):
        if longest is None or minutes <= longest:
            return index
    raise AssertionError("the last horizon has no end")


def _in_milli(votes: tuple[int, ...]) -> list[int]:
    """The sums of one resource from votes as the fleet counts them."""
    _, _, pods, shares, squares, variances = votes[:VOTES]
    return [pods * MILLI, shares * MILLI, squares * MILLI // _MILLION, variances * MILLI]


def alike_ppm(totals: Iterable[tuple[int, ...]]) -> int:
    """Which part of the spread among pods lies between owners, in millionths; see the module.

    Args:
        totals: sums of each owner, in thousandths: pods, shares, squares, variances.
    """
    owners = pods = shares = between = within = crowd = 0
    for of_pods, of_shares, of_squares, _ in totals:
        if of_pods > 0:
            owners += 1
            pods += of_pods
            shares += of_shares
            square = of_shares * of_shares // of_pods
            between += square
            within += max(0, of_squares * _MILLION - square)
            crowd += of_pods * of_pods
    freedom = pods / MILLI - owners
    if owners < 2 or freedom < FREEDOM_MIN:
        return 0
    among = owners - 1
    between -= shares * shares // pods
    ratio = (max(0, between) / among) / (max(1, within) / freedom)
    ratio -= 2.0 * sqrt(2.0 / among + 2.0 / freedom)
    size = (pods - crowd / pods) / (MILLI * among)
    return int(_MILLION * (ratio - 1.0) / (ratio - 1.0 + size)) if ratio > 1.0 else 0


def owner_figures(total: tuple[int, ...], fleet: Fleet, alike: int) -> OwnerFigures:
    """The figures of one owner and resource; see the module.

    Args:
        total: its sums, in thousandths: pods, shares, squares, variances.
        fleet: what is expected of pods without an owner.
        alike: `alike_ppm` of all owners.
    """
    milli, shares, squares, variances = total
    if milli <= 0:
        return OwnerFigures(0, Fleet(0, 0, 0), 0, fleet)
    pods, share, part = milli / MILLI, shares / milli, alike / _MILLION
    unlike = max(0.0, squares - share * shares / _MILLION) / MILLI
    own = Fleet(int(share), variances // milli, int(unlike / pods))
    if not alike:
        return OwnerFigures(milli, own, 0, fleet)
    between = part * fleet.spread_ppm
    within = UNLIKE_PRIOR_PODS * (1.0 - part) * fleet.spread_ppm + part * unlike
    within /= UNLIKE_PRIOR_PODS + part * max(0.0, pods - 1.0)
    whole = pods * between + within
    weight = pods * between / whole if whole > 0.0 else 0.0
    expected = Fleet(
        int(fleet.usage_ppm + weight * (share - fleet.usage_ppm)),
        int(fleet.variance_ppm + weight * (own.variance_ppm - fleet.variance_ppm)),
        int(within + (1.0 - weight) * between),
    )
    return OwnerFigures(milli, own, int(weight * _MILLION), expected)
