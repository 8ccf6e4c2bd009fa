"""Lives of the pods of one node, and of its system part, and what they used lately.

A pod's life is what its metric says of it, once in a window; or else what its node's metrics said
one window apart: averages of five minutes. The system part is what belongs to no pod; host
applications are in it. Where a metric says what the node used and names no pod, the whole node is
the system part.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from schemas.messages.metrics import NodeMetric
from schemas.messages.pods import Pod
from streams.inventory.demand import PodDemand
from streams.inventory.fleet_in_force import FleetInForce
from streams.inventory.life import Life, lived
from streams.inventory.metric_lives import system_usage
from streams.inventory.recent import Recent, ahead, begun, followed
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


def age_minutes(held: HeldPod, now_ms: int) -> int:
    """Whole minutes that a pod has been on its node; below 0: it was not yet."""
    since_ms = held.pod.scheduled_at_ms
    return (now_ms - (held.assigned_at_ms if since_ms is None else since_ms)) // 60_000


class NodeLives:
    """What was used by the pods of one node, and by its system part."""

    __slots__ = ("folded_at_ms", "of", "recents", "reported", "whole")

    def __init__(self) -> None:
        self.of: dict[str, Life] = {}
        """By pod uid, and the system part; pods that have gone since the last addition included."""
        self.recents: dict[str, Recent] = {}
        """What each of these used lately; empty: not asked for, or no metric has said it yet."""
        self.folded_at_ms: int | None = None
        """Update time of the metric that was added last."""
        self.whole = False
        """That metric said what the node used and named no pod."""
        self.reported = False
        """That metric said what pods used over their lives."""

    def expected(self, key: str) -> Life | None:
        """A life as it is expected to go on; none: there is none."""
        life, recent = self.of.get(key), self.recents.get(key)
        return life if life is None or recent is None else ahead(life, recent, WINDOW_MINUTES)

    def due(self, metric: NodeMetric, said: Mapping[tuple[str, str], Life]) -> bool:
        """A metric is to be added: it says lives of pods, or is a window younger than the one
        before."""
        now_ms, last_ms = metric.updated_at_ms, self.folded_at_ms
        if now_ms is None or last_ms is None:
            return now_ms is not None
        # Lives that say nothing of any pod come with averages, of which each counts once.
        if said:
            return now_ms > last_ms
        # Who has said lives once will say them again: a window is waited for longer.
        return now_ms - last_ms >= WINDOW_MINUTES * 60_000 * (2 if self.reported else 1)

    def fold(
        self,
        metric: NodeMetric,
        held: Iterable[HeldPod],
        measured: Mapping[tuple[str, str], Sequence[int]],
        said: Mapping[tuple[str, str], Life],
        fleet: FleetInForce,
        *,
        whole: bool,
    ) -> None:
        """Add a metric.

        Args:
            metric: the newest one.
            held: all pods of the node.
            measured: what it says of pods, by namespace and name, in units of each resource.
            said: lives of pods that it says, in the same way.
            fleet: which resources, and how long the recent is.
            whole: it says what the node used and names no pod.
        """
        now_ms, horizon = metric.updated_at_ms or 0, fleet.recent_minutes
        window = self._window(now_ms)
        lives: dict[str, Life] = {}
        recents: dict[str, Recent] = {}

        def note(
            key: str,
            before: Life | None,
            after: Life | None,
            minutes: int,
            used: Sequence[int] | None,
        ) -> None:
            if after is not None:
                lives[key] = after
                if horizon:
                    recent = None if before is None else self.recents.get(key)
                    recents[key] = _followed(recent, before or after, minutes, used, horizon)

        for each in held:
            uid, name = each.pod.uid, (each.pod.namespace, each.pod.name)
            before, age = self.of.get(uid), age_minutes(each, now_ms)
            used = measured.get(name) if age > 0 else None
            life, minutes = said.get(name), min(age, window)
            # One that is longer than the pod has been there is of another pod of its name.
            if life is None or life[0] > age + 1:
                life = before if used is None else lived(before, minutes, used)
            note(uid, before, life, minutes, used)
        # What is the system's part is another thing where pods are in it.
        before = self.of.get(SYSTEM) if self.whole == whole else None
        life, used = before, None
        if metric.usage is not None:
            used = system_usage(metric, fleet.resources, whole=whole)
            life = lived(before, window, used)
        note(SYSTEM, before, life, window, used)
        self.of, self.recents = lives, recents
        self.folded_at_ms, self.whole, self.reported = now_ms, whole, bool(said)

    def _window(self, now_ms: int) -> int:
        """For how many minutes a metric's averages count: those since the one before, at most a
        window, since who says lives may average over less."""
        if self.folded_at_ms is None:
            return WINDOW_MINUTES
        return max(1, min((now_ms - self.folded_at_ms) // 60_000, WINDOW_MINUTES))

    def forget_recents(self) -> bool:
        """What was used lately is not asked for any more; answers whether it was known."""
        known = bool(self.recents)
        self.recents = {}
        return known


def _followed(
    recent: Recent | None, life: Life, minutes: int, used: Sequence[int] | None, horizon: int
) -> Recent:
    """What was used lately after a window; `used`: mean usage in it, none: it was not measured."""
    recent = begun(life) if recent is None else recent
    return recent if used is None else followed(recent, life, minutes, used, horizon)
