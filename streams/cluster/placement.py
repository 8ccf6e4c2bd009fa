"""Places the pods of one cluster: scheduling requests in, placement decisions out.

- A request is tried when it arrives, unless pods of its kind wait already: then it joins their group.
- A request that arrives before the first clock tick is deferred, because a decision needs a time.
- If no node accepts the pod, the request waits (see `pending`). Waiting requests are retried after
  changes of nodes and at clock ticks; a budget limits the attempts of one record or tick.
- A decision reserves room on the node immediately, so two pods never get the same room. The
  reservation ends when the binding fails, when the pod is gone, or when nobody confirms it in time.
- A request is withdrawn by its producer, or when the pod is gone. The outcome of a binding may be the
  first record to report that the pod is gone.
- A pod that replaces a migrating pod gets the room that the migration holds for it.

An opening is a change of a node after which the node may accept more pods.
"""

import heapq
from collections import deque
from collections.abc import Mapping
from functools import reduce
from operator import or_

from schemas.base.message import EPOCH_MS_MAX
from schemas.base.refusals import Refusal
from schemas.messages.commands import CommandOutcome
from schemas.messages.decisions import SchedulingRequest
from schemas.messages.pods import Pod
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.migration.migrations import Migrations
from streams.placement import explain
from streams.placement.excluded_requests import ExcludedRequests
from streams.placement.explain import Refusals
from streams.placement.filters.unsupported import find_obstacle
from streams.placement.pending import (
    REPORTS_PER_ATTEMPT_MAX,
    UNTRIED,
    KindGroup,
    PendingRequests,
    WaitingRequest,
    compute_backoff_ms,
)
from streams.placement.placer import Choice, Exclusions, Placer
from streams.placement.ranking import Ranking
from streams.pods.held_pod import HeldPod
from streams.pods.kind import Kind, intern_pod, kind_of
from streams.stage.budget import Budget
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

#: Budget of one tick. A unit takes at most a fifth of a millisecond; a decision, or another attempt
#: for the same kind of pods, costs one unit.
UNITS_PER_TICK_MAX = 750
#: Budget of one record that has an opening.
UNITS_PER_RECORD_MAX = 30
#: With more waiting groups than this, only ticks use openings: checking one node takes up to 10 us per
#: group.
GROUPS_AT_ONCE_MAX = 200
#: Shares of a tick's budget that expired reservations, and then deferred requests, leave for later steps.
_LEFT_BY_EXPIRIES, _LEFT_BY_DEFERRED = 3 / 4, 1 / 2


class Placement:
    """Requests, reservations and decisions of one cluster."""

    def __init__(
        self,
        inventory: Inventory,
        placer: Placer,
        exclusions: Exclusions,
        migrations: Migrations,
    ) -> None:
        self.inventory, self.placer, self.migrations = inventory, placer, migrations
        self.pending = PendingRequests()
        self.changed_requests: dict[str, None] = {}
        """Pod uids whose rows in table `pending_requests` must be written (an ordered set)."""
        self.exclusions = exclusions
        self.excluded_requests = ExcludedRequests(
            exclusions, placer, self.pending, self.changed_requests
        )

    # --- inputs ---------------------------------------------------------------------------------

    def apply_policy(self) -> None:
        """Make all waiting groups due, after the policy has changed."""
        self.pending.invalidate_groups()
        now_ms = self.inventory.now_ms
        for uid in self.pending.shorten_backoffs(self.inventory.policy, now_ms):
            self.changed_requests[uid] = None

    def handle_request(
        self, request: SchedulingRequest, cause: Cause
    ) -> list[OutputMessage] | Refusal:
        """Place the pod, let it wait, or withdraw its earlier request."""
        uid = request.pod.uid
        if request.withdrawn:
            return self.withdraw(uid, cause, "the request was withdrawn")
        if self.inventory.find_held(uid) is not None:
            return []  # the pod already has a reservation or runs on a node
        if self.inventory.has_time and not self.pending.deferred:
            return self._handle_new(request, cause)
        limit_reached = self.pending.check_limit(uid, self.inventory.policy.max_pending_requests)
        if limit_reached is not None:
            return Refusal("limit", limit_reached)
        kind = kind_of(request.pod)
        self.pending.defer(
            self.pending.create_waiting(request, kind, self.inventory.numbers.records_applied)
        )
        self.changed_requests[uid] = None
        decisions: list[OutputMessage] = []
        # Two deferred requests for each new one, so that the backlog shrinks under load.
        for _ in range(2 * self.inventory.has_time):
            deferred = self.pending.take_deferred()
            if deferred is not None:
                decisions += self._handle_deferred(deferred, cause)
        return decisions

    def handle_outcome(self, outcome: CommandOutcome, cause: Cause) -> list[OutputMessage]:
        """Confirm the reservation of a binding, or release it and let the pod wait."""
        if outcome.pod_gone:
            # A uid is never used again, so the pod is gone even if the outcome is of an older decision.
            return self.withdraw(outcome.pod.uid, cause, "the pod no longer exists")
        node_and_held = self.inventory.find_held(outcome.pod.uid)
        if outcome.command != "bind" or node_and_held is None:
            return []
        node, held = node_and_held
        if held.decision_id != outcome.command_id or held.expires_at_ms is None:
            return []
        if outcome.result == "done":
            self.inventory.set_expiry(outcome.pod.uid, None)
            return []
        self.inventory.release(outcome.pod.uid)
        if outcome.result == "dry":
            return []
        problem = f"binding to {node.name} {outcome.result}"
        if outcome.reason:
            problem += f": {outcome.reason}"
        return self._retry_after_backoff(held, cause, problem)

    def withdraw(self, uid: str, cause: Cause, reason: str) -> list[OutputMessage]:
        """End a pod's request, or release its reservation if it has one."""
        waiting = self._remove_waiting(uid)
        if waiting is not None:
            return self._report_withdrawn(cause, waiting.request.pod, reason)
        node_and_held = self.inventory.find_held(uid)
        if node_and_held is None or node_and_held[1].expires_at_ms is None:
            return []
        node, held = node_and_held
        self.inventory.release(uid)
        if held.decision_id is None:
            return []  # another scheduler reserved the room
        return self._report_withdrawn(cause, held.pod, reason, node.name)

    def report_rejection(self, pod: Pod, node: str, cause: Cause) -> list[OutputMessage]:
        """Release the room of a pod that the kubelet rejected, because another pod had taken the room.

        The rejection may arrive before the binding is confirmed.
        """
        self.inventory.release(pod.uid)
        message = f"the kubelet of {node} rejected the pod: {pod.failure}"
        return [
            explain.build_ended(cause, pod, "withdrawn", message, node=node, rejected=pod.failure)
        ]

    def handle_bound(self, uid: str, node: str, cause: Cause) -> list[OutputMessage]:
        """End the request of a waiting pod that was bound to a node.

        Another scheduler has bound the pod, or our binding succeeded after its reservation expired.
        """
        waiting = self._remove_waiting(uid)
        if waiting is None:
            return []
        reason = f"the pod was bound to {node}, where it had no reservation"
        return self._report_withdrawn(cause, waiting.request.pod, reason, node)

    def mark_listed(self, uid: str, list_id: str) -> None:
        """Remember for a waiting pod that a full list of pods contains it."""
        waiting = self.pending.get(uid)
        if waiting is not None:
            waiting.list_id = list_id
            self.changed_requests[uid] = None

    def tick(self, cause: Cause, budget_share: float = 1.0) -> list[OutputMessage]:
        """Expire reservations, then handle deferred requests, then retry waiting requests."""
        budget = Budget(int(UNITS_PER_TICK_MAX * budget_share))
        decisions = self._expire_reservations(budget, cause)
        self.note_openings()
        last_kind: Kind | None = None
        while budget.has_more_than(_LEFT_BY_DEFERRED):
            request = self.pending.take_deferred()
            if request is None:
                break
            kind = kind_of(request.pod)
            budget.spend(self._count_units(kind, last_kind))
            last_kind = kind
            decisions += self._handle_deferred(request, cause)
        self.pending.release_delayed(cause.now_ms)
        if self.inventory.paused:
            return decisions
        decisions += self.excluded_requests.recheck(self.inventory.policy, budget, cause)
        return decisions + self._retry(budget, cause)

    def use_openings(self, cause: Cause) -> list[OutputMessage]:
        """Retry waiting pods after a record with openings.

        With an opening on one node and few waiting groups, the groups are tried on the node at once,
        in order of rank. Otherwise the groups that the openings may help are retried at the next tick.
        """
        opened = self._take_openings()
        inventory, pending = self.inventory, self.pending
        if not opened or not pending.group_count:
            return []
        name, change = next(iter(opened.items()))
        node = inventory.nodes.get(name)
        can_try_now = (
            len(opened) == 1
            and node is not None
            and node.row >= 0
            and pending.group_count <= GROUPS_AT_ONCE_MAX
            and inventory.has_time
            and not inventory.paused
            and not pending.has_woken()
        )
        if node is None or not can_try_now:
            self._wake(opened)
            return []
        inventory.update_index()
        return self._try_groups_on(node, change, cause)

    def note_openings(self) -> None:
        """Let the next tick retry the groups that openings may help."""
        self._wake(self._take_openings())

    def _take_openings(self) -> dict[str, int]:
        opened, self.inventory.openings = self.inventory.openings, {}
        return opened

    def _wake(self, opened: Mapping[str, int]) -> None:
        if opened and self.pending.group_count:
            # Nodes without a row get one before the next attempt, which makes a new version.
            version = self.inventory.index.version + self.inventory.index_stale
            self.pending.wake(reduce(or_, opened.values()), version)

    def _try_groups_on(self, node: Node, change: int, cause: Cause) -> list[OutputMessage]:
        """Try groups on one node, until it accepts no more of their pods."""
        decisions: list[OutputMessage] = []
        budget = Budget(UNITS_PER_RECORD_MAX)
        by_rank = self.pending.list_helped_groups(change)
        heapq.heapify(by_rank)
        while by_rank:
            _, group = heapq.heappop(by_rank)
            refusing_filter = self.placer.find_refusing_filter(group.kind, node.row)
            if refusing_filter is not None:
                opened_by = group.opened_by | refusing_filter.watches
                if group.version == UNTRIED or opened_by != group.opened_by:
                    self._note_refusal(group, opened_by)
                continue
            if budget.is_spent:
                self.pending.wake(change, self.inventory.index.version)
                break
            budget.spend(self.placer.count_units(group.kind))
            waiting = self._retry_first(group, budget, decisions, cause)
            if waiting is not None:
                heapq.heappush(by_rank, (waiting.rank, group))
        return decisions

    # --- attempts -------------------------------------------------------------------------------

    def _handle_deferred(self, request: SchedulingRequest, cause: Cause) -> list[OutputMessage]:
        self.changed_requests[request.pod.uid] = None
        return self._handle_new(request, cause)

    def _handle_new(self, request: SchedulingRequest, cause: Cause) -> list[OutputMessage]:
        pod = request.pod
        obstacle = find_obstacle(pod)
        if obstacle is not None:
            self._remove_waiting(pod.uid)
            return [explain.build_ended(cause, pod, "refused", obstacle)]
        max_requests = self.inventory.policy.max_pending_requests
        limit_reached = self.pending.check_limit(pod.uid, max_requests)
        if limit_reached is not None:
            return [explain.build_ended(cause, pod, "refused", limit_reached)]
        if self.pending.get(pod.uid) is not None:
            # The request replaces a waiting one. Even if the pod is placed, delete the old row.
            self.changed_requests[pod.uid] = None
        kind = intern_pod(pod)
        waiting = self.pending.create_waiting(request, kind, self.inventory.numbers.records_applied)
        group_waits = self.pending.find_group(kind) is not None
        joins_group = group_waits and not self.migrations.tracking.has_room_for(pod)
        if joins_group or self.inventory.paused:
            return self._join_group_untried(waiting, cause)
        if self.pending.has_woken():
            return self._join_group_untried(waiting, cause, "other waiting pods are tried first")
        choice = self._choose_node(waiting, cause)
        if choice.row is not None or choice.excluded is not None:
            return [self._place(waiting, choice, cause)]
        self._add_waiting(waiting, cause)
        group = self.pending.find_group(kind)
        assert group is not None  # noqa: S101 - the request has just joined it
        self._start_backoff(group, choice.ranking, cause)
        refusals = explain.count_refusals(self.placer, choice.ranking)
        return [self._report(waiting, refusals, group.retry_at_ms, cause)]

    def _retry(self, budget: Budget, cause: Cause) -> list[OutputMessage]:
        """Retry waiting pods in order of rank, until no node accepts any of them.

        Half of the budget is for the groups that are due longest, one pod of each group in turn. So
        groups of low priority are tried too, no matter how many pods of high priority wait.
        """
        if budget.is_spent:
            return []
        due_groups = self.pending.list_due(cause.now_ms)
        by_rank = [(waiting.rank, group) for waiting, group in due_groups]
        heapq.heapify(by_rank)
        half, last_kind = budget.left // 2, None
        decisions: list[OutputMessage] = []
        while by_rank and budget.left > half:
            _, group = heapq.heappop(by_rank)
            budget.spend(self._count_units(group.kind, last_kind))
            last_kind = group.kind
            waiting = self._retry_first(group, budget, decisions, cause)
            if waiting is not None:
                heapq.heappush(by_rank, (waiting.rank, group))
        by_rank.sort(key=lambda entry: (entry[1].retry_at_ms, entry[0]))
        longest_due = deque(group for _, group in by_rank)
        while longest_due and not budget.is_spent:
            group = longest_due.popleft()
            budget.spend(self._count_units(group.kind, last_kind))
            last_kind = group.kind
            if self._retry_first(group, budget, decisions, cause) is not None:
                longest_due.append(group)
        return decisions

    def _retry_first(
        self, group: KindGroup, budget: Budget, decisions: list[OutputMessage], cause: Cause
    ) -> WaitingRequest | None:
        """Try the first pod of a group; return the next pod, or None if no pod is left or the attempt failed."""
        waiting = self.pending.find_first(group)
        if waiting is None:
            return None
        choice = self._choose_node(waiting, cause)
        if choice.row is None and choice.excluded is None:
            reports = self._report_failures(group, choice.ranking, cause)
            budget.spend(max(0, len(reports) - 1))
            decisions += reports
            return None
        self._remove_waiting(waiting.request.pod.uid)
        decisions.append(self._place(waiting, choice, cause))
        self.pending.retry_soon(group, cause.now_ms)
        return self.pending.find_first(group)

    def _choose_node(self, waiting: WaitingRequest, cause: Cause) -> Choice:
        """Choose the node where a migration reserves room for the pod, else the best node."""
        pod, reserved_node = waiting.request.pod, None
        if self.migrations.lifecycle.registry:
            reserved_node = self.migrations.tracking.claim_room(pod, cause)
        return self.exclusions.choose_node(
            self.placer, pod, waiting.kind, reserved_node, cause.now_ms
        )

    def _place(self, waiting: WaitingRequest, choice: Choice, cause: Cause) -> OutputMessage:
        """Reserve room on the chosen node; without a node, let the pod wait outside of its group."""
        if choice.row is None:
            return self.excluded_requests.wait(waiting, choice, self.inventory.policy, cause)
        request = waiting.request
        expires_at_ms = min(
            cause.now_ms + self.inventory.policy.reservation_seconds * 1000, EPOCH_MS_MAX
        )
        decision = explain.build_placed(cause, waiting, choice, self.placer, expires_at_ms)
        held = HeldPod(
            pod=request.pod,
            kind=waiting.kind,
            assigned_at_ms=cause.now_ms,
            decision_id=decision.fields["decision_id"],
            expires_at_ms=expires_at_ms,
            requested_at_ms=request.requested_at_ms,
            attempt=waiting.attempt,
            sequence=self.inventory.numbers.records_applied,
            arrival=self.inventory.numbers.next_arrival(),
        )
        self.inventory.hold(self.inventory.index.nodes[choice.row].name, held, first_seen=True)
        return decision

    # --- waiting --------------------------------------------------------------------------------

    def _join_group_untried(
        self, waiting: WaitingRequest, cause: Cause, note: str = ""
    ) -> list[OutputMessage]:
        """Join the group without an attempt.

        `note` says why the pod was not tried. Without a note, the decision reports why nodes refuse the pod.
        """
        self._add_waiting(waiting, cause)
        group = self.pending.find_group(waiting.kind)
        assert group is not None  # noqa: S101 - the request has just joined it
        if self.inventory.paused:
            note = "the cluster is paused; the pod is placed after it resumes"
        if note:
            return [self._report(waiting, None, 0, cause, note)]
        ranking = self.placer.rank_to_place(waiting.kind)
        refusals = explain.count_refusals(self.placer, ranking)
        no_node = ranking.find_best() is None
        note = "" if no_node else "pods of this kind wait already; the pod waits with them"
        return [self._report(waiting, refusals, group.retry_at_ms, cause, note)]

    def _add_waiting(self, waiting: WaitingRequest, cause: Cause) -> None:
        self.pending.add(waiting, cause.now_ms)
        self.changed_requests[waiting.request.pod.uid] = None

    def _remove_waiting(self, uid: str) -> WaitingRequest | None:
        waiting = self.pending.remove(uid)
        if waiting is not None:
            self.changed_requests[uid] = None
        return waiting

    def _start_backoff(self, group: KindGroup, ranking: Ranking, cause: Cause) -> None:
        # An attempt after a change of nodes does not lengthen the back-off.
        if not group.failures or not self.pending.is_woken(group):
            group.failures += 1
        group.retry_at_ms = cause.now_ms + compute_backoff_ms(self.inventory.policy, group.failures)
        self._note_refusal(group, ranking.opened_by)

    def _note_refusal(self, group: KindGroup, opened_by: int) -> None:
        group.version, group.opened_by = self.inventory.index.version, opened_by
        self.pending.note_changed(group)

    def _report_failures(
        self, group: KindGroup, ranking: Ranking, cause: Cause
    ) -> list[OutputMessage]:
        """Report a failed attempt: for many pods after a back-off, for one after a change of nodes."""
        woken = self.pending.is_woken(group)
        if woken and cause.now_ms < group.retry_at_ms:
            self._note_refusal(group, ranking.opened_by)
            return []
        self._start_backoff(group, ranking, cause)
        refusals = explain.count_refusals(self.placer, ranking)
        reported = self.pending.list_first(group, 1 if woken else REPORTS_PER_ATTEMPT_MAX)
        return [self._report(waiting, refusals, group.retry_at_ms, cause) for waiting in reported]

    def _report(
        self,
        waiting: WaitingRequest,
        refusals: Refusals | None,
        retry_at_ms: int,
        cause: Cause,
        note: str = "",
    ) -> OutputMessage:
        """Report that a pod waits, and count the attempt."""
        waiting.attempt += 1
        self.changed_requests[waiting.request.pod.uid] = None
        return explain.build_waiting(
            cause,
            waiting.request.pod,
            refusals,
            attempt=waiting.attempt,
            retry_after_ms=max(0, retry_at_ms - cause.now_ms),
            note=note,
        )

    def _retry_after_backoff(
        self, held: HeldPod, cause: Cause, problem: str
    ) -> list[OutputMessage]:
        """Let a pod whose reservation failed wait for its own back-off."""
        pod = held.pod.model_copy(update={"node": None})
        since_ms = held.requested_at_ms or held.assigned_at_ms
        request = SchedulingRequest(cluster=cause.cluster, pod=pod, requested_at_ms=since_ms)
        waiting = self.pending.create_waiting(
            request, kind_of(pod), self.inventory.numbers.records_applied
        )
        waiting.attempt = held.attempt
        backoff_ms = compute_backoff_ms(self.inventory.policy, held.attempt + 1)
        waiting.not_before_ms = cause.now_ms + backoff_ms
        self._add_waiting(waiting, cause)
        return [self._report(waiting, None, waiting.not_before_ms, cause, problem)]

    def _expire_reservations(self, budget: Budget, cause: Cause) -> list[OutputMessage]:
        decisions = []
        for node, held in self.inventory.pop_expired(cause.now_ms):
            budget.spend(2)
            self.inventory.release(held.pod.uid)
            self._retry_after_backoff(held, cause, "")
            text = f"the reservation on {node.name} was not confirmed in time; the pod waits again"
            decisions.append(explain.build_ended(cause, held.pod, "expired", text, node=node.name))
            if not budget.has_more_than(_LEFT_BY_EXPIRIES):
                break
        return decisions

    def _report_withdrawn(
        self, cause: Cause, pod: Pod, reason: str, node: str | None = None
    ) -> list[OutputMessage]:
        if not self.inventory.has_time:
            return []  # the request was deferred, and nothing was reported about it
        return [explain.build_ended(cause, pod, "withdrawn", reason, node=node)]

    def _count_units(self, kind: Kind, last_kind: Kind | None) -> int:
        if last_kind is not None and kind.key == last_kind.key:
            return 1
        return self.placer.count_units(kind)  # all nodes may have to be ranked
