"""Mean and variance of the expected usage of one node, as sums over its pods.

The sums are linear in the usage of the cluster's pods (`usage_shares`), so that usage may change at any
time. Pods are added and subtracted exactly, so the order of events does not matter.

The usage of a pod is that of its lifetime. Lifetimes are extended once per window of five minutes, from the
lifetimes in the metric or else from its averages. The usage of a younger pod is that in the newest metric.
Metrics identify pods by namespace and name, so a pod counts as unmeasured in its first minute: the usage may
be that of an earlier pod with the same name.

The system part is the usage that belongs to no known pod, including host applications. It counts as a pod
without requests. If a metric lacks a resource, the earlier figures of the resource are kept. If a metric
has usage of the node and no usage of pods, the whole node is the system part. Its pods then add only the
uncertainty of their variance, even if they have a lifetime from earlier metrics.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import add, sub

from schemas.base.message import AMOUNT_MAX
from schemas.messages.metrics import NodeMetric, PodMetric
from schemas.messages.pods import Pod
from streams.pods.held_pod import HeldPod
from streams.risk import usage_shares as shares
from streams.risk.fleet_usage import ZERO_SUMS, Fleet, FleetUsage, compute_pod_sums
from streams.risk.lifetimes import (
    NOT_MEASURED,
    WINDOW_MINUTES,
    Lifetime,
    expect_usage,
    extend_lifetime,
    read_lifetimes,
    start_lifetime,
    update_recent,
)

#: Key of the system part among the lifetimes.
SYSTEM = ""
#: Pods by namespace and name.
_PodName = tuple[str, str]


class NodeStatistics:
    """Lifetimes of the pods of one node, and mean and variance of its usage."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.lifetimes: dict[str, Lifetime] = {}
        """By uid of the pod, or `SYSTEM`; includes pods that have left since the last window."""
        self.extended_at_ms: int | None = None
        """Update time of the metric that extended the lifetimes last."""
        self.extended_by_whole_node = False
        """Whether the system part was the whole node at the last extension."""
        self.extended_by_report = False
        """Whether the last extension used lifetimes in the metric."""
        self._young: dict[str, Lifetime] = {}
        """Usage of pods without a lifetime in the newest metric."""
        self._metric_ms: int | None = None
        """Update time of the newest metric."""
        self._metric_pods: Sequence[PodMetric] = ()
        self._lacking: Sequence[str] = ()
        """Resources that the newest metric lacks."""
        self._metric_is_whole_node = False
        """Whether the whole node is the system part in the newest metric."""
        self._sums = (0,) * (shares.SUMS * len(fleet.resources))
        self._figures: list[tuple[float, float]] = []
        self._figures_of: tuple[tuple[int, ...], tuple[FleetUsage, ...]] = ((), ())
        """Sums and fleet usage that `_figures` was computed from; most metrics do not change them."""
        self.fleet_sums = self.tiny_request_sums = ZERO_SUMS * len(fleet.resources)
        """Sums for `compute_fleet_usage`: over all pods, and over pods with tiny requests."""

    # --- results --------------------------------------------------------------------------------

    def get_figures(self) -> list[tuple[float, float]]:
        """Return mean and variance by resource, in units and squares of units; callers must not change the list."""
        sums, fleet = self._sums, self.fleet.figures
        if self._figures_of[1] is not fleet or self._figures_of[0] != sums:
            self._figures, self._figures_of = shares.compute_figures(sums, fleet), (sums, fleet)
        return self._figures

    def compute_pod_figures(self, held: HeldPod) -> list[tuple[float, float]]:
        """Return what one pod of the node adds to mean and variance."""
        share = self._compute_share(held, self._resolve_demand(held))
        return shares.compute_figures(share, self.fleet.figures)

    def _resolve_demand(self, held: HeldPod) -> tuple[int, ...]:
        """Return a pod's demand by resource: request, else limit, else default."""
        resolved = held.kind.resolved
        return tuple([resolved.get(resource, 0) for resource in self.fleet.resources])

    # --- pods -----------------------------------------------------------------------------------

    def add(self, held: HeldPod) -> None:
        self._add(held, None if held.pod.uid in self.lifetimes else self._find_usage(held.pod))

    def _add(self, held: HeldPod, usage: Sequence[int] | None) -> None:
        share, fleet_sums, tiny_request_sums = self._count(held, usage)
        self._sums = tuple(map(add, self._sums, share))
        if fleet_sums:
            self.fleet_sums = tuple(map(add, self.fleet_sums, fleet_sums))
        if tiny_request_sums:
            self.tiny_request_sums = tuple(map(add, self.tiny_request_sums, tiny_request_sums))

    def remove(self, held: HeldPod) -> None:
        demand = self._resolve_demand(held)
        self._sums = tuple(map(sub, self._sums, self._compute_share(held, demand)))
        lifetime = self.lifetimes.get(held.pod.uid)
        if lifetime is None:
            self._young.pop(held.pod.uid, None)
            return
        fleet_sums, tiny_request_sums = self._measure_for_fleet(held, lifetime, demand)
        self.fleet_sums = tuple(map(sub, self.fleet_sums, fleet_sums))
        if tiny_request_sums:
            self.tiny_request_sums = tuple(map(sub, self.tiny_request_sums, tiny_request_sums))

    def _count(
        self, held: HeldPod, usage: Sequence[int] | None
    ) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Return what a pod adds to the node's sums, to `fleet_sums` and to `tiny_request_sums`.

        The last two may be empty. `usage` is that in the newest metric, and counts if the pod has no lifetime.
        """
        demand = self._resolve_demand(held)
        lifetime = self.lifetimes.get(held.pod.uid)
        if lifetime is not None:
            return (
                self._compute_share(held, demand),
                *self._measure_for_fleet(held, lifetime, demand),
            )
        if usage is not None and self._metric_ms is not None:
            minutes = _compute_minutes_in_window(held, self._metric_ms)
            if minutes:
                self._young[held.pod.uid] = start_lifetime(minutes, usage)
        return self._compute_share(held, demand), (), ()

    def _compute_share(self, held: HeldPod, demand: Sequence[int]) -> tuple[int, ...]:
        """Return what a pod adds to the node's sums; the result depends only on pod, lifetime and metric."""
        if self.extended_by_whole_node and self._is_in_whole_node(held):
            return shares.compute_whole_node_share(demand, self._expect(SYSTEM))
        uid = held.pod.uid
        return shares.compute_pod_share(demand, self._expect(uid) or self._young.get(uid))

    def _expect(self, key: str) -> Lifetime | None:
        lifetime = self.lifetimes.get(key)
        return None if lifetime is None else expect_usage(lifetime)

    def _is_in_whole_node(self, held: HeldPod) -> bool:
        """Tell whether a pod's usage is part of the lifetime of the whole node.

        This lasts until the next window, even if the newest metric measures the pod: otherwise its usage
        would count twice.
        """
        at_ms = self.extended_at_ms or 0
        if self._metric_is_whole_node:
            at_ms = max(at_ms, self._metric_ms or 0)
        return held.pod.uid in self.lifetimes or _compute_minutes_in_window(held, at_ms) > 0

    def _measure_for_fleet(
        self, held: HeldPod, lifetime: Lifetime, demand: Sequence[int]
    ) -> tuple[Sequence[int], Sequence[int]]:
        """Return what a pod adds to `fleet_sums` and to `tiny_request_sums`, which may be empty."""
        sums: list[int] = []
        usage = lifetime.usage
        for index, amount in enumerate(demand):
            sums += compute_pod_sums(
                lifetime.minutes, usage[2 * index], usage[2 * index + 1], amount
            )
        counted = self.fleet.select_requested(sums, held.kind)
        return counted, () if counted is sums else tuple(map(sub, sums, counted))

    # --- metrics and policy ---------------------------------------------------------------------

    def apply_metric(
        self,
        metric: NodeMetric | None,
        held: Iterable[HeldPod],
        gone: Sequence[Mapping[str, int]] = (),
        *,
        extend: bool,
    ) -> bool:
        """Replace the metric; return whether it extended the lifetimes.

        Args:
            metric: the metric; None if it was removed. Lifetimes then stay the same.
            held: all pods of the node.
            gone: usage of pods that have left and that the metric's means still include.
            extend: False if the lifetimes already include the metric.
        """
        pods = list(held)
        reported: Mapping[_PodName, Lifetime] = {}
        if metric is None or not extend:
            extend = False
        else:
            reported = read_lifetimes(metric, self.fleet.resources)
            extend = self._is_due(metric, reported)
        if extend or _is_whole_node(metric) or self._metric_is_whole_node:
            self._set_metric(metric)
            if extend and metric is not None:
                self._extend(metric, pods, gone, reported)
            self.sum_up(pods)
        else:
            # The newest metric matters only for pods without a lifetime.
            young = [pod for pod in pods if pod.pod.uid not in self.lifetimes]
            for pod in young:
                self.remove(pod)
            self._set_metric(metric)
            usages = self._read_usages(young) if young else {}
            for pod in young:
                self._add(pod, usages.get((pod.pod.namespace, pod.pod.name)))
        return extend

    def set_fleet(self, fleet: Fleet, metric: NodeMetric | None, held: Iterable[HeldPod]) -> bool:
        """Apply other arguments with the same resources; return whether recent averages were dropped."""
        self.fleet = fleet
        forgotten = self._forget_recent()
        self._set_metric(metric)
        self.sum_up(held)
        return forgotten

    def restore(
        self,
        held: Iterable[HeldPod],
        lifetimes: dict[str, Lifetime],
        extended_at_ms: int,
        *,
        whole: bool,
        reported: bool,
    ) -> None:
        """Restore lifetimes from a row."""
        self.lifetimes, self.extended_at_ms = lifetimes, extended_at_ms
        self.extended_by_whole_node, self.extended_by_report = whole, reported
        self._forget_recent()
        self.sum_up(held)

    def sum_up(self, held: Iterable[HeldPod]) -> None:
        """Recompute all sums."""
        self._young = {}
        system = shares.compute_system_share(self._expect(SYSTEM), len(self.fleet.resources))
        pods = list(held)
        young = [pod for pod in pods if pod.pod.uid not in self.lifetimes]
        usages = self._read_usages(young) if young else {}
        counts = [self._count(pod, usages.get((pod.pod.namespace, pod.pod.name))) for pod in pods]
        zeros = ZERO_SUMS * len(self.fleet.resources)
        self._sums = _add_up([system, *(share for share, _, _ in counts)])
        self.fleet_sums = _add_up([zeros, *(sums for _, sums, _ in counts if sums)])
        self.tiny_request_sums = _add_up([zeros, *(sums for _, _, sums in counts if sums)])

    def _forget_recent(self) -> bool:
        """Drop recent averages if the policy does not use them; return whether there were any."""
        if self.fleet.args.recent_minutes or not any(
            lifetime.recent for lifetime in self.lifetimes.values()
        ):
            return False
        self.lifetimes = {
            key: lifetime._replace(recent=()) for key, lifetime in self.lifetimes.items()
        }
        return True

    def _set_metric(self, metric: NodeMetric | None) -> None:
        self._metric_ms = None if metric is None else metric.updated_at_ms
        self._metric_pods = () if metric is None else metric.pods
        self._lacking = () if metric is None else find_lacking(metric, self.fleet.resources)
        self._metric_is_whole_node = _is_whole_node(metric)

    def _read_usages(self, pods: Iterable[HeldPod]) -> dict[_PodName, tuple[int, ...]]:
        """Return the usage of pods in the newest metric; of equal names, the last one counts."""
        wanted = {(held.pod.namespace, held.pod.name) for held in pods}
        return {
            name: self._read_usage(pod)
            for pod in self._metric_pods
            if pod.usage and (name := (pod.namespace, pod.name)) in wanted
        }

    def _find_usage(self, pod: Pod) -> tuple[int, ...] | None:
        """Return the usage of one pod, as `_read_usages` does for several."""
        for measured in reversed(self._metric_pods):
            if measured.name == pod.name and measured.namespace == pod.namespace and measured.usage:
                return self._read_usage(measured)
        return None

    def _read_usage(self, pod: PodMetric) -> tuple[int, ...]:
        lacking = self._lacking
        return tuple(
            [
                NOT_MEASURED if name in lacking else pod.usage.get(name, 0)
                for name in self.fleet.resources
            ]
        )

    # --- lifetimes ------------------------------------------------------------------------------

    def _is_due(self, metric: NodeMetric, reported: Mapping[_PodName, Lifetime]) -> bool:
        now_ms, last_ms = metric.updated_at_ms, self.extended_at_ms
        if now_ms is None or last_ms is None:
            return now_ms is not None
        if reported:
            return now_ms > last_ms
        # Averages count once per window. A node that reported lifetimes before will report them again, so
        # wait one window longer.
        return now_ms - last_ms >= WINDOW_MINUTES * 60_000 * (2 if self.extended_by_report else 1)

    def _extend(
        self,
        metric: NodeMetric,
        held: Sequence[HeldPod],
        gone: Sequence[Mapping[str, int]],
        reported: Mapping[_PodName, Lifetime],
    ) -> None:
        """Extend the lifetimes by the newest metric; `reported` are the lifetimes in it."""
        now_ms = metric.updated_at_ms or 0
        window = self._compute_window_minutes(now_ms)
        usages = self._read_usages(held)
        lifetimes: dict[str, Lifetime] = {}
        for pod in held:
            uid, name = pod.pod.uid, (pod.pod.namespace, pod.pod.name)
            before, age = self.lifetimes.get(uid), compute_age_minutes(pod, now_ms)
            used = usages.get(name) if age > 0 else None
            after, minutes = reported.get(name), min(age, window)
            # A lifetime that exceeds the pod's age is that of an earlier pod with the same name.
            if after is None or after.minutes > age + 1:
                after = before if used is None else extend_lifetime(before, minutes, used)
            if after is not None:
                lifetimes[uid] = self._update_recent(before, after, minutes, used)
        # A system part that includes pods is not comparable with one that does not.
        before = (
            self.lifetimes.get(SYSTEM)
            if self.extended_by_whole_node == self._metric_is_whole_node
            else None
        )
        after, system = before, None
        if metric.usage is not None:
            names = {(pod.pod.namespace, pod.pod.name) for pod in held}
            pods = [part.usage for part in metric.pods if (part.namespace, part.name) in names]
            system = compute_system_usage(
                metric, self.fleet.resources, [*pods, *gone], whole_node=self._metric_is_whole_node
            )
            after = extend_lifetime(before, window, system)
        if after is not None:
            lifetimes[SYSTEM] = self._update_recent(before, after, window, system)
        self.lifetimes = lifetimes
        self.extended_at_ms, self.extended_by_whole_node, self.extended_by_report = (
            now_ms,
            self._metric_is_whole_node,
            bool(reported),
        )

    def _update_recent(
        self, before: Lifetime | None, after: Lifetime, minutes: int, used: Sequence[int] | None
    ) -> Lifetime:
        recent_minutes = self.fleet.args.recent_minutes
        if not recent_minutes:
            return after
        recent = update_recent(before or after, minutes, used, recent_minutes)
        return Lifetime(after.minutes, after.usage, recent)

    def _compute_window_minutes(self, now_ms: int) -> int:
        """Return the minutes that the averages of a metric add to a lifetime: those since the last extension.

        The result is at most one window. A node that reports lifetimes may extend them more often.
        """
        if self.extended_at_ms is None:
            return WINDOW_MINUTES
        return max(1, min((now_ms - self.extended_at_ms) // 60_000, WINDOW_MINUTES))


def find_lacking(metric: NodeMetric, resources: Sequence[str]) -> tuple[str, ...]:
    """Return the resources that a metric has neither for the node nor for one of its parts."""
    usage = metric.usage or {}
    if all(name in usage for name in resources):
        return ()
    parts = [metric.system_usage, *(pod.usage for pod in metric.pods)]
    parts += [host.usage for host in metric.host_applications]
    return tuple(
        [
            name
            for name in resources
            if name not in usage and not any(name in part for part in parts)
        ]
    )


def compute_system_usage(
    metric: NodeMetric,
    resources: Sequence[str],
    pods: Sequence[Mapping[str, int]],
    *,
    whole_node: bool,
) -> list[int]:
    """Return the mean usage of the system part in units, or `NOT_MEASURED`, one entry per resource.

    The result is at least the usage of the node less that of its pods, because unknown pods count as system.

    Args:
        metric: the metric.
        resources: names in the order of the result.
        pods: usage of pods that are on the node, or have left it recently.
        whole_node: whether all usage of the node counts.
    """
    node_usage: Mapping[str, int] = metric.usage or {}
    lacking = find_lacking(metric, resources)
    parts = [metric.system_usage, *(host.usage for host in metric.host_applications)]
    system = []
    for name in resources:
        used = node_usage.get(name, 0)
        if name in lacking:
            used = NOT_MEASURED
        elif not whole_node:
            reported = sum(part.get(name, 0) for part in parts)
            used = max(reported, used - sum(usage.get(name, 0) for usage in pods))
        system.append(min(used, AMOUNT_MAX))
    return system


def _is_whole_node(metric: NodeMetric | None) -> bool:
    """Tell whether a metric has usage of the node and no usage of pods."""
    return (
        metric is not None
        and metric.usage is not None
        and not any(pod.usage for pod in metric.pods)
    )


def compute_age_minutes(held: HeldPod, now_ms: int) -> int:
    """Return the whole minutes since the pod was scheduled; below 0 before that."""
    since_ms = held.pod.scheduled_at_ms
    return (now_ms - (held.assigned_at_ms if since_ms is None else since_ms)) // 60_000


def _compute_minutes_in_window(held: HeldPod, now_ms: int) -> int:
    return max(0, min(compute_age_minutes(held, now_ms), WINDOW_MINUTES))


def _add_up(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*rows, strict=True)))
