"""Pods that no target could take without becoming hot, so that not every round tries them again.

In comes a pod for which no target was found, with what it used and the most room that any one
target had (`mark`); out goes why it is not worth another try yet (`unmovable`). The test looks at
necessary conditions only, so a pod that could move is never kept back: while some resource that was
short is still short on every target, nothing can have changed for the better. Where none was short
by itself (no one target had enough of all, or a taint or selector stood in the way), its usage must
have fallen or some room grown by a noticeable share. After a time that doubles with each failed
attempt it is tried in any case (docs/upstream.md P3).
"""

from collections.abc import Mapping

from schemas.moves import UNMOVABLE_PER_NODE_MAX, UnmovablePod, UnmovablePodsRow
from schemas.pods import PodRef
from schemas.policy import Policy
from streams.moves.deadlines import Deadlines, doubling_ms, seconds
from streams.stage.tracked_rows import TrackedRows

#: Most pods that are kept; the one tried longest ago is forgotten first.
UNMOVABLE_MAX = 10_000
#: A smaller change of usage or room, in percent of what it was, counts as noise.
NOTICEABLE_PERCENT = 5

_TEXT_MAX = 500


class Unmovable(TrackedRows[str, dict[str, UnmovablePod]]):
    """Unmovable pods of one cluster, by node and uid."""

    def __init__(self, cluster: str, policy: Policy, pods_max: int = UNMOVABLE_MAX) -> None:
        super().__init__("unmovable_pods", sorted_keys=True)
        self.cluster = cluster
        self.pods_max = pods_max
        self._where: dict[str, str] = {}
        self._deadlines = Deadlines()
        self._marked = Deadlines()
        """When each pod was tried last."""
        self.set_policy(policy)

    def __len__(self) -> int:
        return len(self._where)

    def set_policy(self, policy: Policy) -> None:
        """Wait by another policy."""
        self.args = policy.moves
        self.enabled = policy.remembers_moves
        self._deadlines.clear()
        for pods in self.rows.values():
            for uid, kept in pods.items():
                self._deadlines.expect(self._over_ms(kept), uid)

    def shorten_waits(self, now_ms: int) -> None:
        """No pod is left alone for longer than the policy says from now on."""
        for node, pods in self.rows.items():
            for kept in list(pods.values()):
                latest_ms = now_ms + self._wait_ms(kept.attempts)
                if kept.retry_at_ms > latest_ms:
                    self._keep(node, kept.model_copy(update={"retry_at_ms": latest_ms}))
                    self.changed[node] = None

    # --- what happens -----------------------------------------------------------------------------

    def mark(
        self,
        pod: PodRef,
        node: str,
        reason: str,
        usage: Mapping[str, int],
        room: Mapping[str, int],
        now_ms: int,
    ) -> None:
        """A pod was tried, and no target could take it.

        Args:
            pod: which one.
            node: the node that it is on.
            reason: why, with numbers.
            usage: what it uses, in the resources of the pool.
            room: the most room below its high thresholds that any one target had, by resource; one
                without a threshold is not named.
            now_ms: the log's time.
        """
        if not self.enabled:
            return
        before = self.movable(pod.uid)
        attempts = 1 if before is None else before.attempts + 1
        kept = UnmovablePod(
            pod=PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid),
            reason=reason[:_TEXT_MAX],
            usage={name: max(0, usage[name]) for name in sorted(usage)},
            room={name: max(0, room[name]) for name in sorted(room)},
            attempts=attempts,
            marked_at_ms=now_ms,
            retry_at_ms=now_ms + self._wait_ms(attempts),
        )
        if len(self._where) >= self.pods_max:
            self.movable(self._marked.earliest())
        on_node = self.rows.get(node, {})
        if len(on_node) >= UNMOVABLE_PER_NODE_MAX:
            self.movable(min(on_node, key=lambda uid: (on_node[uid].marked_at_ms, uid)))
        self._keep(node, kept)
        self.changed[node] = None

    def movable(self, uid: str) -> UnmovablePod | None:
        """A target has been found for the pod; answers with what was kept of it."""
        node = self._where.pop(uid, None)
        if node is None:
            return None
        self._deadlines.forget(uid)
        self._marked.forget(uid)
        pods = self.rows[node]
        kept = pods.pop(uid)
        if not pods:
            del self.rows[node]
        self.changed[node] = None
        return kept

    def gone(self, uid: str) -> None:
        """The pod is gone."""
        self.movable(uid)

    def tick(self, now_ms: int) -> None:
        """Time has passed: pods that no round has tried to move lately are forgotten."""
        for uid in self._deadlines.due(now_ms):
            node = self._where.get(uid)
            if node is not None and self._over_ms(self.rows[node][uid]) <= now_ms:
                self.movable(uid)

    # --- answers ----------------------------------------------------------------------------------

    def unmovable(
        self, uid: str, usage: Mapping[str, int], room: Mapping[str, int], now_ms: int
    ) -> str | None:
        """Why a pod is not worth a try now, with numbers; None: it is, or nothing is known of it.

        Args:
            uid: of the pod.
            usage: what it uses now, as in `mark`.
            room: the most room that any one target has now, as in `mark`.
            now_ms: the log's time.
        """
        node = self._where.get(uid)
        if node is None or not self.enabled:
            return None
        kept = self.rows[node][uid]
        if kept.retry_at_ms <= now_ms or _changed(kept, usage, room):
            return None
        left_s = seconds(kept.retry_at_ms - now_ms)
        return (
            f"unmovable after {kept.attempts} attempts: {kept.reason}; tried again in {left_s} s, "
            "or when its usage falls or a target gains room"
        )

    # --- rows -------------------------------------------------------------------------------------

    def row(self, key: str) -> UnmovablePodsRow | None:
        """The row of a node; None: no pod of it is kept."""
        pods = self.rows.get(key)
        if pods is None:
            return None
        kept = tuple(pods[uid] for uid in sorted(pods))
        return UnmovablePodsRow(cluster=self.cluster, node=key, pods=kept)

    def take(self, row: UnmovablePodsRow) -> None:
        """Take over a row as it was written."""
        for kept in row.pods:
            self._keep(row.node, kept)

    def _keep(self, node: str, kept: UnmovablePod) -> None:
        self.rows.setdefault(node, {})[kept.pod.uid] = kept
        self._where[kept.pod.uid] = node
        self._deadlines.expect(self._over_ms(kept), kept.pod.uid)
        self._marked.expect(kept.marked_at_ms, kept.pod.uid)

    def _wait_ms(self, attempts: int) -> int:
        args = self.args
        return doubling_ms(args.initial_unmovable_seconds, args.max_unmovable_seconds, attempts)

    def _over_ms(self, kept: UnmovablePod) -> int:
        """When it is forgotten, if it was not tried again."""
        return kept.retry_at_ms + self.args.max_unmovable_seconds * 1000


def _changed(kept: UnmovablePod, usage: Mapping[str, int], room: Mapping[str, int]) -> bool:
    """Whether something has changed that could let the pod fit.

    A resource that the room does not name is not limited.
    """
    short = [name for name, used in kept.usage.items() if used > kept.room.get(name, used)]
    if short:
        return all(name not in room or usage.get(name, 0) <= room[name] for name in short)
    fell = any(
        usage.get(name, 0) * 100 < used * (100 - NOTICEABLE_PERCENT)
        for name, used in kept.usage.items()
    )
    return fell or any(
        now * 100 > kept.room.get(name, 0) * (100 + NOTICEABLE_PERCENT)
        for name, now in room.items()
    )
