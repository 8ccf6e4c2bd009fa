"""Mean and variance of what one node is going to use: the sums over the pods that it holds.

They are linear in what is expected of pods that were not measured (`usage_shares`), so figures of
the fleet may change at any time, and pods are added and taken away exactly: no order of events
shows.

A pod is taken by its life (`node_lives`), as that is expected to go on. A younger one is measured by
the newest metric alone. Metrics name pods by namespace and name, so a pod is not believed to be
measured in its first minute: the figure may be that of one of the same name before it. The system
part is a pod that requests nothing. Where the whole node is the system part, its pods count by what
is not known of their variance alone, also those with a life from metrics that named them.
"""

from collections.abc import Iterable, Sequence
from operator import add, sub

from schemas.messages.metrics import NodeMetric
from streams.inventory import usage_shares as shares
from streams.inventory.fleet_in_force import FleetInForce
from streams.inventory.fleet_usage import ZERO_SUMS, FleetUsage, measure_pod
from streams.inventory.life import Life, first
from streams.inventory.metric_lives import lives_of
from streams.inventory.node_lives import SYSTEM, HeldPod, NodeLives, age_minutes
from streams.inventory.usage_shares import SUMS, WINDOW_MINUTES


class NodeMoments:
    """Mean and variance of one node."""

    __slots__ = (
        "_figures", "_figures_of", "_metric", "_metric_ms", "_sums", "_usages", "_whole", "_young",
        "fleet", "fleet_sums", "lives", "tiny_request_sums",
    )  # fmt: skip

    def __init__(self, fleet: FleetInForce) -> None:
        """Without pods and metrics."""
        self.fleet = fleet
        self.lives = NodeLives()
        """What is kept: all else is worked out from these."""
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
        self._figures: list[tuple[float, float]] = []
        self._figures_of: tuple[tuple[int, ...], tuple[FleetUsage, ...]] = ((), ())
        """What those were worked out of: most metrics change nothing."""
        self.fleet_sums = self.tiny_request_sums = ZERO_SUMS * len(fleet.resources)
        """Sums of the node's pods for `compute_fleet_usage`; the second of pods with tiny requests."""

    # --- pods -----------------------------------------------------------------------------------

    def add(self, held: HeldPod) -> None:
        """A pod takes room."""
        share, fleet_sums, tiny_request_sums = self._count(held)
        self._sums = tuple(map(add, self._sums, share))
        if fleet_sums:
            self.fleet_sums = tuple(map(add, self.fleet_sums, fleet_sums))
        if tiny_request_sums:
            self.tiny_request_sums = tuple(map(add, self.tiny_request_sums, tiny_request_sums))

    def _count(self, held: HeldPod) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Return what a pod adds to the node's sums, to `fleet_sums` and to `tiny_request_sums`.

        The last two may be empty.
        """
        needs = self.fleet.needs(held.pod, held.demand)
        if held.pod.uid in self.lives.of:
            return (self._share(held, needs), *self._measure_for_fleet(held, needs))
        self._meet(held)
        return self._share(held, needs), (), ()

    def remove(self, held: HeldPod) -> None:
        """A pod gives its room back, as it was added."""
        needs = self.fleet.needs(held.pod, held.demand)
        self._sums = tuple(map(sub, self._sums, self._share(held, needs)))
        if held.pod.uid in self.lives.of:
            fleet_sums, tiny_request_sums = self._measure_for_fleet(held, needs)
            self.fleet_sums = tuple(map(sub, self.fleet_sums, fleet_sums))
            if tiny_request_sums:
                self.tiny_request_sums = tuple(map(sub, self.tiny_request_sums, tiny_request_sums))
        else:
            self._young.pop(held.pod.uid, None)

    # --- metrics --------------------------------------------------------------------------------

    def measure(self, metric: NodeMetric | None, held: Iterable[HeldPod], *, fold: bool) -> bool:
        """Take over a new metric; answers whether it was added to the lives.

        Args:
            metric: none: it was removed, and lives stay as they are.
            held: all pods of the node.
            fold: False: it was added already, if it was to be.
        """
        pods = list(held)
        whole = (
            metric is not None
            and metric.usage is not None
            and not any(pod.usage for pod in metric.pods)
        )
        said = lives_of(metric, self.fleet.resources) if fold and metric is not None else {}
        fold = fold and metric is not None and self.lives.due(metric, said)
        if fold or whole or self._whole:
            self._look_at(metric, whole=whole)
            if fold and metric is not None:
                self.lives.fold(metric, pods, self._measured(), said, self.fleet, whole=whole)
            self.sum_up(pods)
        else:
            # Only pods without a life go by the newest metric.
            without = [each for each in pods if each.pod.uid not in self.lives.of]
            for each in without:
                self.remove(each)
            self._look_at(metric, whole=whole)
            for each in without:
                self.add(each)
        return fold

    def restore(self, held: Iterable[HeldPod], lives: NodeLives) -> None:
        """Take over lives as they were written."""
        self.lives = lives
        if not self.fleet.recent_minutes:
            lives.forget_recents()
        self.sum_up(list(held))

    def go_by(self, fleet: FleetInForce) -> bool:
        """Go on with the lives, under other arguments for the same resources.

        Answers whether something that was known of them is not asked for any more.
        """
        self.fleet = fleet
        return not fleet.recent_minutes and self.lives.forget_recents()

    def sum_up(self, held: Iterable[HeldPod]) -> None:
        """Add up all pods anew."""
        self._young = {}
        system = shares.system(self.lives.expected(SYSTEM), len(self.fleet.resources))
        pods = [self._count(each) for each in held]
        none = ZERO_SUMS * len(self.fleet.resources)
        self._sums = _totals([system, *(share for share, _, _ in pods)])
        self.fleet_sums = _totals([none, *(sums for _, sums, _ in pods if sums)])
        self.tiny_request_sums = _totals([none, *(sums for _, _, sums in pods if sums)])

    def _look_at(self, metric: NodeMetric | None, *, whole: bool) -> None:
        self._metric_ms = None if metric is None else metric.updated_at_ms
        self._metric, self._usages, self._whole = metric, {}, whole
        if metric is not None and metric.lives is not None:
            self._measured()  # now, so that a metric is not kept for its lives

    def _measured(self) -> dict[tuple[str, str], tuple[int, ...]]:
        """What the newest metric says of pods: of most it is never asked."""
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

    def _meet(self, held: HeldPod) -> None:
        """Note what the newest metric says of a pod that has no life yet."""
        usage = self._measured().get((held.pod.namespace, held.pod.name))
        if usage is not None and self._metric_ms is not None:
            minutes = _minutes(held, self._metric_ms)
            if minutes:
                self._young[held.pod.uid] = first(minutes, usage)

    # --- sums -----------------------------------------------------------------------------------

    def _share(self, held: HeldPod, needs: Sequence[int]) -> tuple[int, ...]:
        """What one pod adds to the sums: a function of the pod, its life and the newest metric.

        `needs`: what it says that it needs.
        """
        if self.lives.whole and self._within(held):
            return shares.within_whole(needs, self.lives.expected(SYSTEM), self.fleet.args)
        uid = held.pod.uid
        life = self.lives.expected(uid) or self._young.get(uid)
        if life is not None:
            return shares.measured(needs, life, self.fleet.args)
        return shares.unmeasured(needs)

    def _within(self, held: HeldPod) -> bool:
        """A pod is in the whole node's life: until another part is the system's, however the newest
        metric measures it, so that nothing counts twice."""
        at_ms = self.lives.folded_at_ms or 0
        if self._whole:
            at_ms = max(at_ms, self._metric_ms or 0)
        return held.pod.uid in self.lives.of or _minutes(held, at_ms) > 0

    def figures(self) -> list[tuple[float, float]]:
        """Mean and variance by resource, in units and their squares; not to be changed."""
        sums, fleet = self._sums, self.fleet.figures
        if self._figures_of[1] is not fleet or self._figures_of[0] != sums:
            self._figures, self._figures_of = shares.figures(sums, fleet), (sums, fleet)
        return self._figures

    def figures_of(self, held: HeldPod) -> list[tuple[float, float]]:
        """What one pod of the node adds to them."""
        share = self._share(held, self.fleet.needs(held.pod, held.demand))
        return shares.figures(share, self.fleet.figures)

    def _measure_for_fleet(
        self, held: HeldPod, needs: Sequence[int]
    ) -> tuple[Sequence[int], Sequence[int]]:
        """Return what a pod with a life adds to `fleet_sums` and to `tiny_request_sums`.

        The second is empty if the pod requests enough of every resource.
        """
        life = self.lives.of[held.pod.uid]
        sums: list[int] = []
        for index, amount in enumerate(needs):
            sums += measure_pod(life[0], life[1 + 2 * index], life[2 + 2 * index], amount)
        asked = self.fleet.select_asked(sums, held.pod, held.demand)
        return asked, () if asked is sums else tuple(map(sub, sums, asked))


def _totals(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Sums of columns."""
    return tuple(map(sum, zip(*rows, strict=True)))


def _minutes(held: HeldPod, now_ms: int) -> int:
    """Those of them that are within the window before a time."""
    return max(0, min(age_minutes(held, now_ms), WINDOW_MINUTES))
