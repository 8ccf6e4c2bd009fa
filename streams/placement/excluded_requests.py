"""Pods that wait alone, because every node that accepts their kind is excluded for the pod itself.

Other pods of the kind can be placed, so the excluded pods must not delay the group. Each tick rechecks
them. They join the group when a node that is not excluded accepts their kind, for example because a node
has cooled. Whenever the back-off of an excluded pod ends, a decision reports that the pod still waits.
"""

from schemas.policy import Policy
from streams.placement import explain
from streams.placement.pending import PendingRequests, WaitingRequest, compute_backoff_ms
from streams.placement.placer import UNITS_PER_KIND, Choice, Exclusions, Placer
from streams.stage.budget import Budget, rotate
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

#: Anti-affinity terms whose evaluation costs one unit of the budget.
TERMS_PER_UNIT = 50


class ExcludedRequests:
    def __init__(
        self,
        exclusions: Exclusions,
        placer: Placer,
        pending: PendingRequests,
        changed_requests: dict[str, None],
    ) -> None:
        self._exclusions, self._placer = exclusions, placer
        self._pending = pending
        self._changed = changed_requests

    def wait(
        self, waiting: WaitingRequest, choice: Choice, policy: Policy, cause: Cause
    ) -> OutputMessage:
        """Let a pod wait alone for its next back-off."""
        waiting.excluded = True
        waiting.attempt += 1
        wait_ms = compute_backoff_ms(policy, waiting.attempt)
        waiting.not_before_ms = cause.now_ms + wait_ms
        self._pending.add(waiting, cause.now_ms)
        self._changed[waiting.request.pod.uid] = None
        return explain.build_waiting(
            cause,
            waiting.request.pod,
            explain.count_refusals(self._placer, choice.ranking, choice.excluded),
            attempt=waiting.attempt,
            retry_after_ms=wait_ms,
        )

    def recheck(self, policy: Policy, budget: Budget, cause: Cause) -> list[OutputMessage]:
        """Let pods that no longer need to wait alone join their groups; use half of the remaining budget."""
        decisions: list[OutputMessage] = []
        half = budget.left // 2
        requests = self._pending.list_excluded(half // UNITS_PER_KIND)
        for waiting in rotate(requests, cause.now_ms):
            if budget.left <= half:
                break
            budget.spend(self._placer.count_units(waiting.kind))
            self._placer.inventory.update_index()
            excluded = self._exclusions.find_excluded(waiting.request.pod, cause.now_ms)
            budget.spend(0 if excluded is None else excluded.terms // TERMS_PER_UNIT)
            choice = None
            if excluded is not None:
                choice = self._exclusions.choose_outside(self._placer, waiting.kind, excluded)
            if choice is None or choice.ranking.find_best() is None or choice.row is not None:
                self._pending.remove(waiting.request.pod.uid)
                waiting.excluded = False
                waiting.not_before_ms = 0
                self._pending.add(waiting, cause.now_ms)
                self._changed[waiting.request.pod.uid] = None
            elif waiting.not_before_ms <= cause.now_ms:
                decisions.append(self.wait(waiting, choice, policy, cause))
        return decisions
