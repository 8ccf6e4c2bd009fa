"""Mean and variance of what one node is going to use: the sums over the pods that it holds.

They are linear in what is expected of pods that nobody has measured (`usage_shares`), so figures of
the fleet may change at any time, and pods are added and taken away exactly: no order of events
shows.

A pod's life is what its metric says of it, once in a window; or else what its node's metrics said
one window apart: averages of five minutes. A younger pod is measured by the newest metric alone.
Metrics name pods by namespace and name, so a pod is not believed to be measured in its first
minute: the figure may be that of one of the same name before it. The system part is a pod that
requests nothing; host applications are in it. Where a metric says what the node used and names no
pod, the whole node is the system part, and its pods count by what is not known of their variance
alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import add, sub
from typing import Protocol

from schemas.metrics import NodeMetric
from schemas.pods import Pod
from streams.inventory import usage_shares as shares
from streams.inventory.demand import PodDemand
from streams.inventory.fleet_in_force import FleetInForce
from streams.inventory.fleet_usage import NO_VOTES, votes
from streams.inventory.life import Life, first, lived
from streams.inventory.metric_lives import lives_of, says_lives, system_usage
from streams.inventory.owner_sums import SUMS, OwnerSums
from streams.inventory.owner_usage import owner_of
from streams.inventory.usage_shares import WINDOW_MINUTES

#: Key of the system part among the lives.
SYSTEM = ""


class HeldPod(Protocol):
    """What is asked of a pod that takes room."""

    @property
    def pod(self) -> Pod: ...
    @property
    def demand(self) -> PodDemand: ...
    @property
    def assigned_at_ms(self) -> int: ...


class NodeMoments:
    """Mean and variance of one node."""

    __slots__ = (
        "_by_owner", "_metric", "_metric_ms", "_sums", "_usages", "_whole", "_young", "fleet",
        "folded_at_ms", "folded_whole", "lives", "reported", "summed", "votes",
    )  # fmt: skip

    def __init__(self, fleet: FleetInForce, *, summed: bool = True) -> None:
        """Without pods and metrics; `summed`: keep sums from the beginning."""
        self.fleet = fleet
        self.summed = summed
        """Sums are kept; else lives alone are, until somebody sets this and calls `sum_up`."""
        self.folded_at_ms: int | None = None
        """Update time of the metric that was added to the lives last."""
        self.folded_whole = False
        """That metric said what the node used and named no pod."""
        self.reported = False
        """That metric said what pods used over their lives."""
        self.lives: dict[str, Life] = {}
        """By pod uid, and the system part; pods that have gone since the last addition included."""
        self._young: dict[str, Life] = {}
        """Pods without a life that the newest metric has measured."""
        self._metric: NodeMetric | None = None
        """The newest metric; none: nothing of it is asked for any more."""
        self._usages: dict[tuple[str, str], tuple[int, ...]] = {}
        """What it says of pods, once that is asked for; see `_measured`."""
        self._metric_ms: int | None = None
        self._whole = False
        """The metric says what the node used and names no pod."""
        self._sums = (0,) * (SUMS * len(fleet.resources))
        self.votes = NO_VOTES * len(fleet.resources)
        """What the node's pods say of the fleet."""
        self._by_owner = None if fleet.owners is None else OwnerSums(fleet.owners)

    # --- pods -----------------------------------------------------------------------------------

    def add(self, held: HeldPod) -> None:
        """A pod takes room."""
        if not self.summed:
            return
        own: Sequence[int] = ()
        if held.pod.uid in self.lives:
            own = self._votes(held)
            self.votes = tuple(map(add, self.votes, own))
        else:
            self._meet(held)
        share = self._share(held)
        self._sums = tuple(map(add, self._sums, share))
        if self._by_owner is not None:
            self._by_owner.count(held.pod, share, own, 1)

    def remove(self, held: HeldPod) -> None:
        """A pod gives its room back, as it was added."""
        if not self.summed:
            return
        own: Sequence[int] = ()
        share = self._share(held)
        self._sums = tuple(map(sub, self._sums, share))
        if held.pod.uid in self.lives:
            own = self._votes(held)
            self.votes = tuple(map(sub, self.votes, own))
        else:
            self._young.pop(held.pod.uid, None)
        if self._by_owner is not None:
            self._by_owner.count(held.pod, share, own, -1)

    def gone(self, held: HeldPod, now_ms: int) -> None:
        """A pod that was taken away has ended, and is remembered for its owner."""
        owners, life = self.fleet.owners, self.lives.get(held.pod.uid)
        owner = None if owners is None or life is None else owner_of(held.pod)
        if owners is not None and life is not None and owner is not None:
            owners.remember(owner, life[0], tuple(self._votes(held)), now_ms)

    # --- metrics --------------------------------------------------------------------------------

    def measure(self, metric: NodeMetric | None, held: Iterable[HeldPod], *, fold: bool) -> bool:
        """Take over a new metric; answers whether it was added to the lives.

        Args:
            metric: none: it was removed, and lives stay as they are.
            held: all pods of the node.
            fold: False: it was added already, if it was to be.
        """
        pods, lives = list(held), self.lives
        whole = (
            metric is not None
            and metric.usage is not None
            and not any(pod.usage for pod in metric.pods)
        )
        fold = fold and metric is not None and self._due(metric)
        if fold or whole or self._whole:
            self._look_at(metric, whole=whole)
            if fold and metric is not None:
                self._fold(metric, pods)
            self.sum_up(pods)
        else:
            # Only pods without a life go by the newest metric.
            without = [each for each in pods if each.pod.uid not in lives]
            for each in without:
                self.remove(each)
            self._look_at(metric, whole=whole)
            for each in without:
                self.add(each)
        return fold

    def restore(
        self,
        held: Iterable[HeldPod],
        lives: dict[str, Life],
        at_ms: int,
        *,
        whole: bool,
        reported: bool,
    ) -> None:
        """Take over lives as they were written."""
        self.lives, self.folded_at_ms = lives, at_ms
        self.folded_whole, self.reported = whole, reported
        self.sum_up(list(held))

    def go_by(self, fleet: FleetInForce, *, summed: bool) -> None:
        """Go on with the lives, under other arguments for the same resources."""
        self.fleet, self.summed = fleet, summed
        self._by_owner = None if fleet.owners is None else OwnerSums(fleet.owners)

    def sum_up(self, held: Iterable[HeldPod]) -> None:
        """Add up all pods anew, if sums are kept."""
        if not self.summed:
            return
        self._young = {}
        self._sums = shares.system(self.lives.get(SYSTEM), len(self.fleet.resources))
        if self._by_owner is not None:
            self._by_owner.clear()
        self.votes = NO_VOTES * len(self.fleet.resources)
        for each in held:
            self.add(each)

    def _look_at(self, metric: NodeMetric | None, *, whole: bool) -> None:
        self._metric_ms = None if metric is None else metric.updated_at_ms
        self._metric, self._usages, self._whole = metric, {}, whole
        if metric is not None and says_lives(metric):
            self._measured()  # now, so that a metric is not kept for its lives

    def _measured(self) -> dict[tuple[str, str], tuple[int, ...]]:
        """What the newest metric says of pods: of most it is asked by nobody."""
        metric = self._metric
        if metric is not None:
            resources = self.fleet.resources
            self._usages = {
                (pod.namespace, pod.name): tuple([pod.usage.get(name, 0) for name in resources])
                for pod in metric.pods
                if pod.usage
            }
            self._metric = None
        return self._usages

    def _due(self, metric: NodeMetric) -> bool:
        now_ms, last_ms = metric.updated_at_ms, self.folded_at_ms
        if now_ms is None or last_ms is None:
            return now_ms is not None
        if says_lives(metric):
            return now_ms > last_ms
        # Who has said lives once will say them again: a window is waited for longer.
        return now_ms - last_ms >= WINDOW_MINUTES * 60_000 * (2 if self.reported else 1)

    def _fold(self, metric: NodeMetric, held: Iterable[HeldPod]) -> None:
        """Add the metric to the lives."""
        now_ms = metric.updated_at_ms or 0
        said, measured = lives_of(metric, self.fleet.resources), self._measured()
        lives: dict[str, Life] = {}
        for each in held:
            uid, pod = each.pod.uid, each.pod
            life, age = self.lives.get(uid), _age_minutes(each, now_ms)
            own = said.get((pod.namespace, pod.name))
            # One that is longer than the pod has been there is of another pod of its name.
            if own is not None and own[0] <= age + 1:
                life = own
            elif age > 0:
                used = measured.get((pod.namespace, pod.name))
                if used is not None:
                    life = lived(life, min(age, WINDOW_MINUTES), used)
            if life is not None:
                lives[uid] = life
        # What is the system's part is another thing where pods are in it.
        before = self.lives.get(SYSTEM) if self.folded_whole == self._whole else None
        if metric.usage is not None:
            usage = system_usage(metric, self.fleet.resources, whole=self._whole)
            before = lived(before, WINDOW_MINUTES, usage)
        if before is not None:
            lives[SYSTEM] = before
        self.lives, self.folded_at_ms, self.folded_whole = lives, now_ms, self._whole
        self.reported = bool(said)

    def _meet(self, held: HeldPod) -> None:
        """Note what the newest metric says of a pod that has no life yet."""
        usage = self._measured().get((held.pod.namespace, held.pod.name))
        if usage is not None and self._metric_ms is not None:
            minutes = _minutes(held, self._metric_ms)
            if minutes:
                self._young[held.pod.uid] = first(minutes, usage)

    # --- sums -----------------------------------------------------------------------------------

    def _share(self, held: HeldPod) -> tuple[int, ...]:
        """What one pod adds to the sums: a function of the pod, its life and the newest metric."""
        uid = held.pod.uid
        needs = self.fleet.needs(held.pod, held.demand)
        life = self.lives.get(uid) or self._young.get(uid)
        if life is not None:
            return shares.measured(needs, life, self.fleet.args)
        if self._whole and self._metric_ms is not None and _minutes(held, self._metric_ms):
            return shares.within_whole(needs, self.lives.get(SYSTEM), self.fleet.args)
        return shares.unmeasured(needs)

    def figures(self) -> list[tuple[float, float]]:
        """Mean and variance by resource, in units and their squares."""
        found = shares.figures(self._sums, self.fleet.figures)
        return found if self._by_owner is None else self._by_owner.corrected(found)

    def rough_figures(self, requested: Mapping[str, int], pods: int) -> list[tuple[float, float]]:
        """The same as long as no sums are kept: as if pods were alike and nothing of them measured.

        Args:
            requested: sum of their requests, by resource.
            pods: how many there are.
        """
        amounts = [
            sum([requested[name] for name in forms if name in requested])
            for forms in self.fleet.forms
        ]
        return shares.figures(shares.alike(amounts, pods), self.fleet.figures)

    def figures_of(self, held: HeldPod) -> list[tuple[float, float]]:
        """What one pod of the node adds to them."""
        share = self._share(held)
        found = shares.figures(share, self.fleet.figures)
        return found if self._by_owner is None else self._by_owner.of_pod(held.pod, share, found)

    def _votes(self, held: HeldPod) -> list[int]:
        """What a pod with a life says of the fleet."""
        life = self.lives[held.pod.uid]
        own: list[int] = []
        for index, amount in enumerate(self.fleet.needs(held.pod, held.demand)):
            own += votes(life[0], life[1 + 2 * index], life[2 + 2 * index], amount)
        return own


def _age_minutes(held: HeldPod, now_ms: int) -> int:
    """Whole minutes that a pod has been on its node; below 0: it was not yet."""
    since_ms = held.pod.scheduled_at_ms
    return (now_ms - (held.assigned_at_ms if since_ms is None else since_ms)) // 60_000


def _minutes(held: HeldPod, now_ms: int) -> int:
    """Those of them that are within the window before a time."""
    return max(0, min(_age_minutes(held, now_ms), WINDOW_MINUTES))
