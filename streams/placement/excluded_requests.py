"""Pods that wait alone, because every node that would take their kind is forbidden for their owner.

Their kind is not to blame, so they do not hold up its group. They are looked at in each tick, which
costs little, and join the group as soon as their owner may go where their kind can: when a node has
cooled, or another one has room. That they still wait is reported at the steps of their back-off
only.
"""

from schemas.policy import Policy
from streams.placement import explain
from streams.placement.exclusions import Excluded, Exclusions
from streams.placement.pending import PendingRequests, Waiting, backoff_ms
from streams.placement.placer import UNITS_PER_KIND, Placer
from streams.placement.ranking import Ranking
from streams.stage.budget import Budget, rotate
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

#: Terms of anti-affinity that are looked at for one unit.
TERMS_PER_UNIT = 50


class ExcludedRequests:
    """Requests of one cluster that wait because of their owners."""

    def __init__(
        self,
        exclusions: Exclusions,
        placer: Placer,
        pending: PendingRequests,
        changed_requests: dict[str, None],
    ) -> None:
        self.exclusions = exclusions
        self._placer = placer
        self._pending = pending
        self._changed = changed_requests

    def wait(
        self, waiting: Waiting, ranking: Ranking, excluded: Excluded, policy: Policy, cause: Cause
    ) -> OutputMessage:
        """Let a pod wait alone, or go on waiting."""
        waiting.excluded = True
        waiting.attempt += 1
        alone_ms = backoff_ms(policy, waiting.attempt)
        waiting.not_before_ms = cause.now_ms + alone_ms
        self._pending.add(waiting, cause.now_ms)
        self._changed[waiting.request.pod.uid] = None
        return explain.waiting(
            cause,
            waiting.request.pod,
            explain.refusals(self._placer, ranking, excluded),
            attempt=waiting.attempt,
            retry_after_ms=alone_ms,
        )

    def look(self, policy: Policy, budget: Budget, cause: Cause) -> list[OutputMessage]:
        """Let pods join their groups that need not wait alone any more, for half of what is left."""
        decisions: list[OutputMessage] = []
        half = budget.left // 2
        looked_at = self._pending.excluded(half // UNITS_PER_KIND)
        for waiting in rotate(looked_at, cause.now_ms):
            if budget.left <= half:
                break
            budget.spend(self._placer.count_units(waiting.kind))
            self._placer.inventory.lay_out()
            excluded = self.exclusions.of(waiting.request.pod, cause.now_ms)
            budget.spend(0 if excluded is None else excluded.terms // TERMS_PER_UNIT)
            ranking = self._placer.rank_to_place(waiting.kind, excluded)
            if excluded is None or ranking.best() is None or excluded.best(ranking) is not None:
                self._pending.remove(waiting.request.pod.uid)
                waiting.excluded = False
                waiting.not_before_ms = 0
                self._pending.add(waiting, cause.now_ms)
                self._changed[waiting.request.pod.uid] = None
            elif waiting.not_before_ms <= cause.now_ms:
                decisions.append(self.wait(waiting, ranking, excluded, policy, cause))
        return decisions
