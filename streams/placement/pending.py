"""Requests that wait for a node.

Pods of one kind wait in one group, because nodes accept or refuse them alike. A group is retried:

- after a change of a node that may help the group. Each filter names the changes that it depends on
  (`watches`), and the filters that refuse the kind decide which changes wake the group. Woken groups
  are retried at once or at the next tick, in the order of priority and arrival of their first pods.
- when its back-off ends. The back-off doubles with each attempt, up to a limit.

Two sorts of pods wait outside of their groups:

- pods whose binding failed, until their own back-off ends,
- pods that are excluded from every node that accepts their kind (see `excluded_requests`).

A request that arrives before the first clock tick is deferred, because a decision needs a time.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from schemas.messages.decisions import SchedulingRequest
from schemas.policy import Policy
from schemas.storage.rows import WaitingGroupRow
from streams.inventory.node_index import Change
from streams.moves.waits import compute_wait_ms
from streams.pods.kind import Kind

#: Most pods of a group for which one failed attempt is reported. A pod's first failure is always reported.
REPORTS_PER_ATTEMPT_MAX = 100

#: Version of a group that is due: it is new, its last attempt placed a pod, or the policy has changed.
UNTRIED = -1
_CHANGES = (Change.STATE, Change.PODS, Change.METRIC, Change.FLEET)

#: Most stale entries in a group's heap, beyond the size of the group.
_HEAP_SLACK = 64


@dataclass(slots=True)
class WaitingRequest:
    request: SchedulingRequest
    kind: Kind
    sequence: int
    """Order of arrival."""
    attempt: int = 0
    """Failed attempts that were reported, and failed bindings; 0 for a deferred request."""
    not_before_ms: int = 0
    """End of the request's own back-off."""
    applied: int = 0
    """Number of records that the cluster had applied when the request arrived."""
    list_id: str | None = None
    """The last full list that contains the pod."""
    excluded: bool = False
    """Whether the request waits alone because of exclusions (see `excluded_requests`)."""
    rank: tuple[int, int] = field(init=False)
    """Sort key: higher priority first, then order of arrival."""

    def __post_init__(self) -> None:
        self.rank = -(self.request.pod.priority or 0), self.sequence


@dataclass(slots=True)
class KindGroup:
    """Waiting requests of one kind, and the result of their last attempt."""

    kind: Kind
    uids: dict[str, None] = field(default_factory=dict)
    heap: list[tuple[int, int, str]] = field(default_factory=list)
    """Rank and uid of requests; stale entries are skipped."""
    failures: int = 0
    retry_at_ms: int = 0
    opened_by: int = Change.ALL
    """Changes after which a node may accept the kind."""
    version: int = UNTRIED
    """Version of the index at the last failure; later changes in `opened_by` wake the group."""


class PendingRequests:
    """All waiting requests of a cluster."""

    def __init__(self) -> None:
        self._waiting: dict[str, WaitingRequest] = {}
        self._groups: dict[bytes, KindGroup] = {}
        self._delayed: list[tuple[int, int, str]] = []
        """Time, sequence and uid of requests with their own back-off."""
        self.deferred: dict[str, None] = {}
        """Pod uids of requests that arrived before the first clock tick (an ordered set)."""
        self._deferred_order: list[tuple[int, str]] = []
        """Sequence and uid of deferred requests; stale entries are skipped."""
        self._excluded: dict[str, None] = {}
        """Pod uids of requests that wait alone because of exclusions (an ordered set)."""
        self.requests_seen = 0
        self._changed_groups: dict[bytes, None] = {}
        self._version_by_change = dict.fromkeys(_CHANGES, 0)
        """Version of the index at the last change of each sort."""
        self._may_have_woken = False
        self._asleep: dict[bytes, None] = {}
        """Groups whose written rows have `woken` false."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[WaitingRequest]:
        """Iterate in the order of arrival; a request that replaces another keeps its position."""
        return iter(sorted(self._waiting.values(), key=lambda waiting: waiting.sequence))

    def get(self, uid: str) -> WaitingRequest | None:
        return self._waiting.get(uid)

    def check_limit(self, uid: str, requests_max: int) -> str | None:
        """Return why a pod's request cannot wait; None if it can, or already waits."""
        if len(self._waiting) < requests_max or uid in self._waiting:
            return None
        return f"{len(self._waiting)} requests wait already; maxPendingRequests allows no more"

    def list_unlisted(self, list_id: str, begin: int, count: int) -> list[str]:
        """Return at most `count` uids of pods that a full list lacks, if they were requested before `begin`."""
        unlisted = (
            waiting.request.pod.uid
            for waiting in self
            if waiting.list_id != list_id and waiting.applied < begin
        )
        return list(islice(unlisted, count))

    def find_group(self, kind: Kind) -> KindGroup | None:
        return self._groups.get(kind.key)

    def create_waiting(
        self, request: SchedulingRequest, kind: Kind, applied: int
    ) -> WaitingRequest:
        """Build a waiting request, in the position of an older request of the same pod."""
        old = self.remove(request.pod.uid)
        if old is None:
            self.requests_seen += 1
        sequence = self.requests_seen if old is None else old.sequence
        return WaitingRequest(request, kind, sequence, applied=applied)

    def defer(self, waiting: WaitingRequest) -> None:
        """Keep a request until the first clock tick."""
        uid = waiting.request.pod.uid
        self._waiting[uid] = waiting
        self.deferred[uid] = None
        heapq.heappush(self._deferred_order, (waiting.sequence, uid))

    def take_deferred(self) -> SchedulingRequest | None:
        """Remove and return the oldest deferred request; None if there is none."""
        while self._deferred_order:
            sequence, uid = heapq.heappop(self._deferred_order)
            if uid in self.deferred and self._waiting[uid].sequence == sequence:
                request = self._waiting[uid].request
                self.remove(uid)
                return request
        return None

    def add(self, waiting: WaitingRequest, now_ms: int) -> None:
        """Let a request wait: in its group, for its own back-off, or alone because of exclusions."""
        uid = waiting.request.pod.uid
        self._waiting[uid] = waiting
        if waiting.excluded:
            self._excluded[uid] = None
            return
        if waiting.not_before_ms > now_ms:
            heapq.heappush(self._delayed, (waiting.not_before_ms, waiting.sequence, uid))
            return
        self._join(waiting)

    def _join(self, waiting: WaitingRequest) -> None:
        uid = waiting.request.pod.uid
        group = self._groups.get(waiting.kind.key)
        if group is None:
            group = self._groups[waiting.kind.key] = KindGroup(waiting.kind)
            self._may_have_woken = True
        group.uids[uid] = None
        heapq.heappush(group.heap, (*waiting.rank, uid))
        if len(group.heap) > 2 * len(group.uids) + _HEAP_SLACK:
            group.heap = [(*self._waiting[uid].rank, uid) for uid in group.uids]
            heapq.heapify(group.heap)

    def remove(self, uid: str) -> WaitingRequest | None:
        waiting = self._waiting.pop(uid, None)
        self.deferred.pop(uid, None)
        self._excluded.pop(uid, None)
        if waiting is not None:
            group = self._groups.get(waiting.kind.key)
            if group is not None:
                group.uids.pop(uid, None)
                if not group.uids:
                    del self._groups[waiting.kind.key]
                    self._changed_groups[waiting.kind.key] = None
        return waiting

    def list_excluded(self, count: int) -> list[WaitingRequest]:
        """Return at most `count` requests that wait because of exclusions, in the order of arrival.

        If there are more, returns the requests whose back-off ends first.
        """
        waiting = [self._waiting[uid] for uid in self._excluded]
        if len(waiting) > count:
            waiting = heapq.nsmallest(
                count, waiting, key=lambda request: (request.not_before_ms, request.sequence)
            )
        return sorted(waiting, key=lambda request: request.sequence)

    # --- waking ---------------------------------------------------------------------------------

    def wake(self, change: int, version: int) -> None:
        """Wake the groups that a change of nodes may help; `version` is the index's version after the change."""
        for sort in _CHANGES:
            if sort & change:
                self._version_by_change[sort] = version
        self._may_have_woken = True

    def is_woken(self, group: KindGroup) -> bool:
        """Tell whether a change that may help the group came after its last attempt."""
        return any(
            group.opened_by & change and version > group.version
            for change, version in self._version_by_change.items()
        )

    def has_woken(self) -> bool:
        self._may_have_woken = self._may_have_woken and any(
            map(self.is_woken, self._groups.values())
        )
        return self._may_have_woken

    def list_helped_groups(self, change: int) -> list[tuple[tuple[int, int], KindGroup]]:
        """Return the groups that a change of a node may help, with the rank of their first request."""
        return [
            (waiting.rank, group)
            for group in list(self._groups.values())
            if group.opened_by & change and (waiting := self.find_first(group))
        ]

    @property
    def group_count(self) -> int:
        return len(self._groups)

    def retry_soon(self, group: KindGroup, now_ms: int) -> None:
        """Make a group due after one of its pods was placed."""
        group.failures, group.retry_at_ms, group.version = 0, now_ms, UNTRIED
        self._may_have_woken = True
        self.note_changed(group)

    def note_changed(self, group: KindGroup) -> None:
        self._changed_groups[group.kind.key] = None

    def invalidate_groups(self) -> None:
        """Make all groups due, because results of earlier attempts are stale."""
        self._may_have_woken = True
        for group in self._groups.values():
            group.version = UNTRIED

    def shorten_backoffs(self, policy: Policy, now_ms: int) -> list[str]:
        """Shorten back-offs to a policy's limit; return the pods whose own back-off is shorter now."""
        for group in self._groups.values():
            if group.retry_at_ms <= now_ms:
                continue
            latest_ms = now_ms + compute_backoff_ms(policy, group.failures)
            if group.retry_at_ms > latest_ms:
                group.retry_at_ms = latest_ms
                self.note_changed(group)
        shortened_uids = []
        for uid in dict.fromkeys([uid for *_, uid in self._delayed] + list(self._excluded)):
            waiting = self._waiting.get(uid)
            if waiting is None:
                continue
            latest_ms = now_ms + compute_backoff_ms(policy, waiting.attempt)
            if waiting.not_before_ms > latest_ms:
                waiting.not_before_ms = latest_ms
                shortened_uids.append(uid)
                if not waiting.excluded:
                    heapq.heappush(self._delayed, (latest_ms, waiting.sequence, uid))
        return shortened_uids

    def restore_group(self, row: WaitingGroupRow, version: int) -> None:
        """Restore a group from its row; `version` is the index's current version."""
        group = self._groups.get(bytes.fromhex(row.kind))
        if group is None:
            return
        group.failures, group.retry_at_ms = row.failures, row.retry_at_ms
        group.opened_by, group.version = row.opened_by, UNTRIED if row.woken else version
        if not row.woken:
            self._asleep[group.kind.key] = None

    def take_changed_groups(self) -> Iterator[tuple[bytes, KindGroup | None]]:
        """Yield the kind's digest and the group of each changed row; None for a group without requests."""
        changed, self._changed_groups = self._changed_groups, {}
        if self._may_have_woken:
            for key in self._asleep:
                group = self._groups.get(key)
                if group is not None and self.is_woken(group):
                    changed[key] = None
        for key in changed:
            group = self._groups.get(key)
            if group is None or self.is_woken(group):
                self._asleep.pop(key, None)
            else:
                self._asleep[key] = None
            yield key, group

    def release_delayed(self, now_ms: int) -> None:
        """Let requests whose own back-off has ended join their groups."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            due_ms, _, uid = heapq.heappop(self._delayed)
            waiting = self._waiting.get(uid)
            if waiting is not None and waiting.not_before_ms == due_ms:
                self.add(waiting, now_ms)

    def list_due(self, now_ms: int) -> list[tuple[WaitingRequest, KindGroup]]:
        """Return the groups to try now, each with its first request, unordered."""
        due = [
            group
            for group in self._groups.values()
            if now_ms >= group.retry_at_ms or self.is_woken(group)
        ]
        return [(waiting, group) for group in due if (waiting := self.find_first(group))]

    def find_first(self, group: KindGroup) -> WaitingRequest | None:
        """Return the group's first request by rank; None if the group is empty."""
        while group.heap:
            priority, sequence, uid = group.heap[0]
            waiting = self._waiting.get(uid)
            if waiting is not None and uid in group.uids and waiting.rank == (priority, sequence):
                return waiting
            heapq.heappop(group.heap)
        return None

    def list_first(self, group: KindGroup, count: int) -> list[WaitingRequest]:
        requests = [self._waiting[uid] for uid in group.uids]
        return heapq.nsmallest(count, requests, key=lambda waiting: waiting.rank)


def compute_backoff_ms(policy: Policy, failures: int) -> int:
    return compute_wait_ms(policy.initial_backoff_seconds, policy.max_backoff_seconds, failures)
