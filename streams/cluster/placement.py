"""Requests in, decisions out: place, reserve, wait, try again.

A request is tried when it arrives, unless pods of its kind wait already; then it shares their
result. A request that comes before the first tick of the clock is kept until then, because a
decision has a time. A pod that cannot be placed waits (see `pending`) and is tried again at clock
ticks, as far as the budget of a tick allows. A decision takes its room at once, so
two requests never see the same room. The room is given back when the binding fails, when the pod
goes, or when the reservation expires without confirmation. A request ends without a node when it is
withdrawn, when its pod goes, and when a binding finds that the pod has gone: the record that says
so may have come before the request. A pod that replaces a migrating pod gets the room that
migrations hold for it.
"""

import heapq
from collections import deque
from collections.abc import Mapping
from functools import reduce
from operator import or_

from schemas.base.message import EPOCH_MS_MAX
from schemas.base.refusals import Refusal
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import Pod
from schemas.messages.requests import SchedulingRequest
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.migration.migrations import Migrations
from streams.placement import explain
from streams.placement.excluded_requests import ExcludedRequests
from streams.placement.exclusions import Exclusions
from streams.placement.explain import Refusals
from streams.placement.pending import (
    NEW,
    REPORTS_PER_ATTEMPT_MAX,
    KindGroup,
    PendingRequests,
    Waiting,
    backoff_ms,
)
from streams.placement.placer import Placer
from streams.placement.ranking import Ranking
from streams.placement.reservations import Reservations, preferred
from streams.placement.unplaceable import unplaceable
from streams.pods.held import Held
from streams.pods.kind import Kind, kind_of, share_parts
from streams.stage.budget import Budget
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

#: Units of work that one tick may spend on pods that wait; one is at most a fifth of a millisecond.
#: A decision takes one, as does another attempt for the same kind of pods.
UNITS_PER_TICK_MAX = 750
#: The same of one record that lets a node take more.
UNITS_PER_RECORD_MAX = 30
#: With more kinds that wait than this, they are tried at ticks only: to ask about one node takes up
#: to 10 us a kind.
KINDS_AT_ONCE_MAX = 200
#: Shares of a tick's budget that are kept for what comes next: after reservations that end, after
#: requests from before the first tick.
_EXPIRIES_LEAVE, _UNSEEN_LEAVE = 3 / 4, 1 / 2


class Placement:
    """Decides for the pods of one cluster."""

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
        """Rows of table `pending_requests` to write, by pod uid."""
        self.reservations = Reservations(inventory)
        self.excluded_requests = ExcludedRequests(
            exclusions, placer, self.pending, self.changed_requests
        )

    # --- inputs ---------------------------------------------------------------------------------

    def policy_changed(self) -> None:
        """What the inventory's policy says about those that wait is open."""
        self.pending.open_groups()
        now_ms = self.inventory.now_ms
        for uid in self.pending.shorten_backoffs(self.inventory.policy, now_ms):
            self.changed_requests[uid] = None

    def request(self, request: SchedulingRequest, cause: Cause) -> list[OutputMessage] | Refusal:
        """A pod wants a node, or does not want one any more."""
        uid = request.pod.uid
        if request.withdrawn:
            return self.gone(uid, cause, "the request was withdrawn")
        if self.inventory.held(uid) is not None:
            # A decision for this pod is under way or has become a fact already.
            return []
        if self.inventory.context.begun and not self.pending.unseen:
            return self._judge(request, cause)
        full = self.pending.full(uid, self.inventory.policy.max_pending_requests)
        if full is not None:
            return Refusal("limit", full)
        kind = kind_of(request.pod)
        self.pending.keep(self.pending.arrive(request, kind, self.inventory.numbers.sequence))
        self.changed_requests[uid] = None
        decisions: list[OutputMessage] = []
        # Two for one, so that a backlog shrinks whatever arrives.
        for _ in range(2 * self.inventory.context.begun):
            kept = self.pending.take_unseen()
            if kept is not None:
                decisions += self._judge_kept(kept, cause)
        return decisions

    def outcome(self, outcome: CommandOutcome, cause: Cause) -> list[OutputMessage]:
        """The outcome of a binding.

        A pod that is gone never comes back under its uid, so its request ends with any outcome that
        says so, also with that of an earlier decision.
        """
        if outcome.pod_gone:
            return self.gone(outcome.pod.uid, cause, "the pod is not there any more")
        found = self.inventory.held(outcome.pod.uid)
        if outcome.command != "bind" or found is None:
            return []
        node, held = found
        if held.decision_id != outcome.command_id or held.expires_at_ms is None:
            return []
        if outcome.result == "done":
            self.inventory.confirm(outcome.pod.uid)
            return []
        self.inventory.release(outcome.pod.uid)
        if outcome.result == "dry":
            return []
        why = f"binding to {node.name} came to nothing: {outcome.result}"
        return self._again(held, cause, f"{why}, {outcome.reason}" if outcome.reason else why)

    def gone(self, uid: str, cause: Cause, why: str) -> list[OutputMessage]:
        """A pod does not want a node any more; a reservation for it is given up."""
        waiting = self._forget(uid)
        if waiting is not None:
            return self._ended(cause, waiting.request.pod, why)
        found = self.inventory.held(uid)
        if found is not None and found[1].expires_at_ms is not None:
            self.inventory.release(uid)
            # Of room that another scheduler holds nothing was decided.
            if found[1].decision_id is not None:
                return self._ended(cause, found[1].pod, why, found[0].name)
        return []

    def report_rejection(self, pod: Pod, node: str, cause: Cause) -> list[OutputMessage]:
        """The kubelet did not take a pod that we placed: another scheduler was there first."""
        message = f"the kubelet of {node} rejected the pod: {pod.failure}"
        return [explain.ended(cause, pod, "withdrawn", message, node=node, rejected=pod.failure)]

    def bound(self, uid: str, node: str, cause: Cause) -> list[OutputMessage]:
        """A pod was seen on a node; if it still waited for one, another program placed it."""
        waiting = self._forget(uid)
        if waiting is None:
            return []
        why = f"the pod was bound to {node} without a decision of ours in force"
        return self._ended(cause, waiting.request.pod, why, node)

    def listed(self, uid: str, list_id: str) -> None:
        """A full list of pods names a pod that may be waiting."""
        waiting = self.pending.get(uid)
        if waiting is not None:
            waiting.list_id = list_id
            self.changed_requests[uid] = None

    def tick(self, cause: Cause, share: float = 1.0) -> list[OutputMessage]:
        """Time has passed: reservations end, what waits is tried again, for a share of the budget."""
        budget = Budget(int(UNITS_PER_TICK_MAX * share))
        decisions = self._expire_all(budget, cause)
        self.note_openings()
        last: Kind | None = None
        while budget.has_more_than(_UNSEEN_LEAVE):
            request = self.pending.take_unseen()
            if request is None:
                break
            kind = kind_of(request.pod)
            budget.spend(self._count_units(kind, last))
            last = kind
            decisions += self._judge_kept(request, cause)
        self.pending.release_delayed(cause.now_ms)
        if self.inventory.context.paused:
            return decisions
        decisions += self.excluded_requests.look(self.inventory.policy, budget, cause)
        return decisions + self._retry(budget, cause)

    def use_openings(self, cause: Cause) -> list[OutputMessage]:
        """Try the pods that wait, after a record has let a node take more.

        If few kinds wait, each is asked about the node at once, the first in rank first. Else, and
        after changes of many nodes, the kinds that this may help are tried at the next tick.
        """
        opened = self._take_openings()
        context, pending = self.inventory.context, self.pending
        if not opened or not pending.kinds:
            return []
        name, change = next(iter(opened.items()))
        node = self.inventory.nodes.get(name)
        at_once = (
            len(opened) == 1
            and node is not None
            and node.row >= 0
            and pending.kinds <= KINDS_AT_ONCE_MAX
            and context.begun
            and not context.paused
            and not pending.has_woken()
        )
        if node is None or not at_once:
            self._wake(opened)
            return []
        self.inventory.lay_out()
        return self._try_on(node, change, cause)

    def note_openings(self) -> None:
        """Let the next tick try the pods that wait, after what has let nodes take more."""
        self._wake(self._take_openings())

    def _take_openings(self) -> dict[str, int]:
        opened, self.inventory.opened = self.inventory.opened, {}
        return opened

    def _wake(self, opened: Mapping[str, int]) -> None:
        if opened and self.pending.kinds:
            # Nodes without a place get it before the next attempt, which makes a new version.
            version = self.inventory.index.version + self.inventory.layout_stale
            self.pending.wake(reduce(or_, opened.values()), version)

    def _try_on(self, node: Node, change: int, cause: Cause) -> list[OutputMessage]:
        """Try the kinds that a change of one node may help, until it takes no more of them."""
        decisions: list[OutputMessage] = []
        budget = Budget(UNITS_PER_RECORD_MAX)
        by_rank = self.pending.opened_by(change)
        heapq.heapify(by_rank)
        while by_rank:
            _, group = heapq.heappop(by_rank)
            refusing = self.placer.find_refusing(group.kind, node.row)
            if refusing is not None:
                opened_by = group.opened_by | refusing.watches
                if group.version == NEW or opened_by != group.opened_by:
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

    def _judge_kept(self, request: SchedulingRequest, cause: Cause) -> list[OutputMessage]:
        """Decide about a request that was only kept so far."""
        self.changed_requests[request.pod.uid] = None
        return self._judge(request, cause)

    def _judge(self, request: SchedulingRequest, cause: Cause) -> list[OutputMessage]:
        """Decide about a request for the first time."""
        pod = request.pod
        hopeless = unplaceable(pod)
        if hopeless is not None:
            self._forget(pod.uid)
            return [explain.ended(cause, pod, "refused", hopeless)]
        full = self.pending.full(pod.uid, self.inventory.policy.max_pending_requests)
        if full is not None:
            return [explain.ended(cause, pod, "refused", full)]
        if self.pending.get(pod.uid) is not None:
            # The row of the request that it replaces must go even if this one is placed at once.
            self.changed_requests[pod.uid] = None
        kind = kind_of(pod)
        waiting = self.pending.arrive(request, kind, self.inventory.numbers.sequence)
        behind = self.pending.group(kind) is not None and not self.migrations.awaits(pod)
        if behind or self.inventory.context.paused:
            return self._wait(waiting, cause)
        if self.pending.has_woken():
            return self._wait(waiting, cause, "pods that wait already are tried first")
        return self._attempt(waiting, cause)

    def _attempt(self, waiting: Waiting, cause: Cause) -> list[OutputMessage]:
        ranking, row = self._look(waiting, cause)
        if row is not None:
            return [self._place(waiting, row, ranking, cause)]
        self._let_wait(waiting, cause)
        group = self.pending.group(waiting.kind)
        assert group is not None  # noqa: S101 - the request has just joined it
        self._back_off(group, ranking, cause)
        why = explain.refusals(self.placer, ranking)
        return [self._report(waiting, group, why, cause)]

    def _look(self, waiting: Waiting, cause: Cause) -> tuple[Ranking, int | None]:
        """The kind's ranking, and a node: where room was held, or the best; None: none."""
        held = self.migrations.claim(waiting.request.pod, cause)
        ranking = self.placer.rank_to_place(waiting.kind)
        return ranking, preferred(ranking, self.inventory.nodes.get(held or ""))

    def _retry(self, budget: Budget, cause: Cause) -> list[OutputMessage]:
        """Try pods that wait, the first of all kinds first, until no node takes any of them.

        Where the budget does not do for all, half of it is for kinds that are due longest, one pod of
        each in turn, so that no number of pods of a high priority keeps the others from ever being
        tried.
        """
        if budget.is_spent:
            return []
        due = self.pending.due(cause.now_ms)
        by_rank = [(waiting.rank, group) for waiting, group in due]
        heapq.heapify(by_rank)
        half, last = budget.left // 2, None
        decisions: list[OutputMessage] = []
        while by_rank and budget.left > half:
            _, group = heapq.heappop(by_rank)
            budget.spend(self._count_units(group.kind, last))
            last = group.kind
            waiting = self._retry_first(group, budget, decisions, cause)
            if waiting is not None:
                heapq.heappush(by_rank, (waiting.rank, group))
        by_rank.sort(key=lambda entry: (entry[1].retry_at_ms, entry[0]))
        longest_due = deque(group for _, group in by_rank)
        while longest_due and not budget.is_spent:
            group = longest_due.popleft()
            budget.spend(self._count_units(group.kind, last))
            last = group.kind
            if self._retry_first(group, budget, decisions, cause) is not None:
                longest_due.append(group)
        return decisions

    def _retry_first(
        self, group: KindGroup, budget: Budget, decisions: list[OutputMessage], cause: Cause
    ) -> Waiting | None:
        """Try the first pod of a group; return the next one, None: there is none or all failed."""
        waiting = self.pending.next_of(group)
        if waiting is None:
            return None
        ranking, row = self._look(waiting, cause)
        if row is None:
            reports = self._report_failures(group, ranking, cause)
            budget.spend(max(0, len(reports) - 1))
            decisions += reports
            return None
        self._forget(waiting.request.pod.uid)
        decisions.append(self._place(waiting, row, ranking, cause))
        self.pending.try_soon(group, cause.now_ms)
        return self.pending.next_of(group)

    def _place(self, waiting: Waiting, row: int, ranking: Ranking, cause: Cause) -> OutputMessage:
        """Decide, and take the room at once, on the best node that the owner may go to."""
        excluded = self.excluded_requests.exclusions.of(waiting.request.pod, cause.now_ms)
        if excluded is not None and row in excluded.rows:
            ranking = self.placer.rank_to_place(waiting.kind, excluded)
            allowed = excluded.best(ranking)
            if allowed is None:
                return self.excluded_requests.wait(
                    waiting, ranking, excluded, self.inventory.policy, cause
                )
            row = allowed
        request = waiting.request
        expires_at_ms = min(
            cause.now_ms + self.inventory.policy.reservation_seconds * 1000, EPOCH_MS_MAX
        )
        decision = explain.placed(
            cause,
            request.pod,
            row,
            ranking,
            self.placer,
            attempt=waiting.attempt,
            expires_at_ms=expires_at_ms,
            excluded=excluded,
        )
        held = Held(
            pod=share_parts(request.pod, waiting.kind),
            demand=waiting.kind.demand,
            assigned_at_ms=cause.now_ms,
            decision_id=decision.fields["decision_id"],
            expires_at_ms=expires_at_ms,
            requested_at_ms=request.requested_at_ms,
            attempt=waiting.attempt,
            sequence=self.inventory.numbers.sequence,
            place=self.inventory.numbers.next_place(),
        )
        self.inventory.hold(self.inventory.index.nodes[row].name, held, first_seen=True)
        self.reservations.expect_end(held)
        return decision

    # --- waiting --------------------------------------------------------------------------------

    def _wait(self, waiting: Waiting, cause: Cause, note: str = "") -> list[OutputMessage]:
        """Join the group without an attempt: its result holds for this pod too.

        Args:
            waiting: the request.
            cause: the record.
            note: why the kind was not tried yet; empty: it was.
        """
        self._let_wait(waiting, cause)
        group = self.pending.group(waiting.kind)
        assert group is not None  # noqa: S101 - the request has just joined it
        if self.inventory.context.paused:
            note = "the cluster is paused; the request is kept"
        if note:
            waiting.attempt += 1
            pod, attempt = waiting.request.pod, waiting.attempt
            return [explain.waiting(cause, pod, None, attempt=attempt, retry_after_ms=0, note=note)]
        ranking = self.placer.rank_to_place(waiting.kind)
        why = explain.refusals(self.placer, ranking)
        alone = ranking.best() is None
        note = "" if alone else "pods of this kind wait already; it waits with them"
        return [self._report(waiting, group, why, cause, note)]

    def _let_wait(self, waiting: Waiting, cause: Cause) -> None:
        self.pending.add(waiting, cause.now_ms)
        self.changed_requests[waiting.request.pod.uid] = None

    def _forget(self, uid: str) -> Waiting | None:
        waiting = self.pending.remove(uid)
        if waiting is not None:
            self.changed_requests[uid] = None
        return waiting

    def _back_off(self, group: KindGroup, ranking: Ranking, cause: Cause) -> None:
        """Begin the back-off, a longer one unless something had changed since the last attempt."""
        if not group.failures or not self.pending.is_woken(group):
            group.failures += 1
        group.retry_at_ms = cause.now_ms + backoff_ms(self.inventory.policy, group.failures)
        self._note_refusal(group, ranking.opened_by)

    def _note_refusal(self, group: KindGroup, opened_by: int) -> None:
        """Note that no node takes a group as the nodes are now, and what may change that."""
        group.version, group.opened_by = self.inventory.index.version, opened_by
        self.pending.group_changed(group)

    def _report_failures(
        self, group: KindGroup, ranking: Ranking, cause: Cause
    ) -> list[OutputMessage]:
        """No node takes a group; report it when a back-off is over, and briefly after a change."""
        woken = self.pending.is_woken(group)
        if woken and cause.now_ms < group.retry_at_ms:
            self._note_refusal(group, ranking.opened_by)
            return []
        self._back_off(group, ranking, cause)
        why = explain.refusals(self.placer, ranking)
        reported = self.pending.first(group, 1 if woken else REPORTS_PER_ATTEMPT_MAX)
        return [self._report(waiting, group, why, cause) for waiting in reported]

    def _report(
        self, waiting: Waiting, group: KindGroup, why: Refusals, cause: Cause, note: str = ""
    ) -> OutputMessage:
        waiting.attempt += 1
        self.changed_requests[waiting.request.pod.uid] = None
        return explain.waiting(
            cause,
            waiting.request.pod,
            why,
            attempt=waiting.attempt,
            retry_after_ms=max(0, group.retry_at_ms - cause.now_ms),
            note=note,
        )

    def _again(self, held: Held, cause: Cause, why: str) -> list[OutputMessage]:
        """A reservation failed: the pod waits for its own back-off, then for a node."""
        pod = held.pod.model_copy(update={"node": None})
        since_ms = held.requested_at_ms or held.assigned_at_ms
        request = SchedulingRequest(cluster=cause.cluster, pod=pod, requested_at_ms=since_ms)
        waiting = self.pending.arrive(request, kind_of(pod), self.inventory.numbers.sequence)
        attempt = waiting.attempt = held.attempt + 1
        alone_ms = backoff_ms(self.inventory.policy, attempt)
        waiting.not_before_ms = cause.now_ms + alone_ms
        self._let_wait(waiting, cause)
        kept = explain.waiting(cause, pod, None, attempt=attempt, retry_after_ms=alone_ms, note=why)
        return [kept]

    def _expire_all(self, budget: Budget, cause: Cause) -> list[OutputMessage]:
        """Reservations whose time is over, the earliest first; others wait for another tick."""
        decisions = []
        for node, held in self.reservations.over(cause.now_ms):
            budget.spend(2)
            self.inventory.release(held.pod.uid)
            self._again(held, cause, "")
            why = f"the reservation on {node.name} was not confirmed in time; the pod waits again"
            decisions.append(explain.ended(cause, held.pod, "expired", why, node=node.name))
            if not budget.has_more_than(_EXPIRIES_LEAVE):
                break
        return decisions

    def _ended(
        self, cause: Cause, pod: Pod, why: str, node: str | None = None
    ) -> list[OutputMessage]:
        """A pod wants no node any more; of a request that was only kept nothing was reported."""
        if not self.inventory.context.begun:
            return []
        return [explain.ended(cause, pod, "withdrawn", why, node=node)]

    def _count_units(self, kind: Kind, last: Kind | None) -> int:
        """Units of a budget that an attempt takes: all nodes may have to be ranked for another kind."""
        return 1 if last is not None and kind.key == last.key else self.placer.count_units(kind)
