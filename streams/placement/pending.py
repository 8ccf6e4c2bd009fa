"""Requests that wait for a node.

Pods of one kind share one result, so they wait in one group. A group knows which changes of a node
may help it: those that the filters name which refuse its kind. Such a change wakes the group: it is
tried again at once or at the next tick, first the group whose pod is first in priority and arrival.
Without such a change a group is tried when its back-off is over, which doubles with each of these
attempts up to a limit. A pod whose binding failed waits alone before it joins its group again. So
does a pod whose owner must stay away from every node that would take its kind.

A decision has a time. So a request that comes before the clock's first tick is only kept, unseen,
until then.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from schemas.messages.requests import SchedulingRequest
from schemas.policy import Policy
from schemas.storage.rows import WaitingGroupRow
from streams.inventory.node_index import Change
from streams.pods.kind import Kind

#: How many pods of a group are notified of each failed attempt; all are notified of their first.
REPORTS_PER_ATTEMPT_MAX = 100

#: Version of a group that was not tried, or has found room: it is to be tried.
NEW = -1
#: Changes of which none is tried yet.
_CHANGES = (Change.STATE, Change.PODS, Change.METRIC, Change.FLEET)

#: Entries of pods that have left, or came again, that a group's heap may hold beyond its size.
_HEAP_SLACK = 64


@dataclass(slots=True)
class Waiting:
    """One request that waits."""

    request: SchedulingRequest
    kind: Kind
    sequence: int
    """Order of arrival."""
    attempt: int = 0
    """Failed attempts that were reported, and failed bindings; 0 of a request that is only kept."""
    not_before_ms: int = 0
    """Its own back-off, after a failed binding."""
    applied: int = 0
    """How many records of the cluster had been applied when it came."""
    list_id: str | None = None
    """The full list that named its pod last."""
    excluded: bool = False
    """Nodes would take its kind, and all of them are forbidden for its owner: it waits alone."""
    rank: tuple[int, int] = field(init=False)
    """Higher priority first, then order of arrival."""

    def __post_init__(self) -> None:
        self.rank = -(self.request.pod.priority or 0), self.sequence


@dataclass(slots=True)
class KindGroup:
    """Waiting requests of one kind, and what is known of their chances."""

    kind: Kind
    uids: dict[str, None] = field(default_factory=dict)
    heap: list[tuple[int, int, str]] = field(default_factory=list)
    """Rank and uid; entries of pods that have left are skipped."""
    failures: int = 0
    retry_at_ms: int = 0
    opened_by: int = Change.ALL
    """Changes of a node that may let it take the kind."""
    version: int = NEW
    """Version of the nodes at the last failure; later changes of this sort wake the group."""


class PendingRequests:
    """All waiting requests of a cluster."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._groups: dict[bytes, KindGroup] = {}
        self._delayed: list[tuple[int, int, str]] = []
        """Time, sequence and uid of pods with a back-off of their own."""
        self.unseen: dict[str, None] = {}
        """Requests about which nothing was decided yet, by pod uid."""
        self._unseen_order: list[tuple[int, str]] = []
        """Sequence and uid of those; entries of requests that have gone are skipped."""
        self._excluded: dict[str, None] = {}
        """Requests that wait alone because of their owner, by pod uid."""
        self.sequence = 0
        self._changed_groups: dict[bytes, None] = {}
        self._opened_at = dict.fromkeys(_CHANGES, 0)
        """Version of the nodes at the last change of each sort that woke groups."""
        self._some_woken = False
        """Some group may be woken."""
        self._asleep: dict[bytes, None] = {}
        """Groups whose rows say that they are not woken."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        """In the order of arrival, which a request that is replaced by a newer one keeps."""
        return iter(sorted(self._waiting.values(), key=lambda waiting: waiting.sequence))

    def get(self, uid: str) -> Waiting | None:
        """The request of a pod, if it waits."""
        return self._waiting.get(uid)

    def full(self, uid: str, most: int) -> str | None:
        """Why a pod's request cannot wait beside those there are; None if it can, or does already."""
        if len(self._waiting) < most or uid in self._waiting:
            return None
        return f"{len(self._waiting)} requests wait; maxPendingRequests allows no more"

    def unlisted(self, list_id: str, begin: int, count: int) -> list[str]:
        """Pods whose requests came before a full list began, and which it lacks; at most `count`."""
        gone = (
            waiting.request.pod.uid
            for waiting in self
            if waiting.list_id != list_id and waiting.applied < begin
        )
        return list(islice(gone, count))

    def group(self, kind: Kind) -> KindGroup | None:
        """The group of a kind, if any of its pods waits."""
        return self._groups.get(kind.key)

    def arrive(self, request: SchedulingRequest, kind: Kind, applied: int) -> Waiting:
        """A new request; it replaces an older one of the pod, and keeps its place in the order."""
        old = self.remove(request.pod.uid)
        if old is None:
            self.sequence += 1
        sequence = self.sequence if old is None else old.sequence
        return Waiting(request, kind, sequence, applied=applied)

    def keep(self, waiting: Waiting) -> None:
        """Take in a request that nothing can be decided about yet."""
        uid = waiting.request.pod.uid
        self._waiting[uid] = waiting
        self.unseen[uid] = None
        heapq.heappush(self._unseen_order, (waiting.sequence, uid))

    def take_unseen(self) -> SchedulingRequest | None:
        """Remove and return the oldest request that was only kept so far; None: there is none."""
        while self._unseen_order:
            sequence, uid = heapq.heappop(self._unseen_order)
            if uid in self.unseen and self._waiting[uid].sequence == sequence:
                request = self._waiting[uid].request
                self.remove(uid)
                return request
        return None

    def add(self, waiting: Waiting, now_ms: int) -> None:
        """Let a request wait."""
        uid = waiting.request.pod.uid
        self._waiting[uid] = waiting
        if waiting.excluded:
            self._excluded[uid] = None
            return
        if waiting.not_before_ms > now_ms:
            heapq.heappush(self._delayed, (waiting.not_before_ms, waiting.sequence, uid))
            return
        self._join(waiting)

    def _join(self, waiting: Waiting) -> None:
        uid = waiting.request.pod.uid
        group = self._groups.get(waiting.kind.key)
        if group is None:
            group = self._groups[waiting.kind.key] = KindGroup(waiting.kind)
            self._some_woken = True
        group.uids[uid] = None
        heapq.heappush(group.heap, (*waiting.rank, uid))
        if len(group.heap) > 2 * len(group.uids) + _HEAP_SLACK:
            group.heap = [(*self._waiting[uid].rank, uid) for uid in group.uids]
            heapq.heapify(group.heap)

    def remove(self, uid: str) -> Waiting | None:
        """A request does not wait any more."""
        waiting = self._waiting.pop(uid, None)
        self.unseen.pop(uid, None)
        self._excluded.pop(uid, None)
        if waiting is not None:
            group = self._groups.get(waiting.kind.key)
            if group is not None:
                group.uids.pop(uid, None)
                if not group.uids:
                    del self._groups[waiting.kind.key]
                    self._changed_groups[waiting.kind.key] = None
        return waiting

    def excluded(self, count: int) -> list[Waiting]:
        """Requests that wait alone because of their owner, in the order of arrival.

        Of more than the limit those whose own back-off is over first.
        """
        waiting = [self._waiting[uid] for uid in self._excluded]
        if len(waiting) > count:
            waiting = heapq.nsmallest(
                count, waiting, key=lambda each: (each.not_before_ms, each.sequence)
            )
        return sorted(waiting, key=lambda each: each.sequence)

    # --- waking ---------------------------------------------------------------------------------

    def wake(self, change: int, version: int) -> None:
        """Wake the groups that a change of nodes may help; `version` is that of the nodes after it."""
        for each in _CHANGES:
            if each & change:
                self._opened_at[each] = version
        self._some_woken = True

    def is_woken(self, group: KindGroup) -> bool:
        """Whether a change that may help a group has not been tried yet."""
        return any(
            group.opened_by & change and at > group.version
            for change, at in self._opened_at.items()
        )

    def has_woken(self) -> bool:
        """Whether any group is woken."""
        self._some_woken = self._some_woken and any(map(self.is_woken, self._groups.values()))
        return self._some_woken

    def opened_by(self, change: int) -> list[tuple[tuple[int, int], KindGroup]]:
        """Groups that a change of a node may help, with the rank of their first request."""
        return [
            (waiting.rank, group)
            for group in list(self._groups.values())
            if group.opened_by & change and (waiting := self.next_of(group))
        ]

    @property
    def kinds(self) -> int:
        """Number of groups."""
        return len(self._groups)

    def try_soon(self, group: KindGroup, now_ms: int) -> None:
        """There was room for a pod of a group, if too little for all: it is tried again soon."""
        group.failures, group.retry_at_ms, group.version = 0, now_ms, NEW
        self._some_woken = True
        self.group_changed(group)

    def group_changed(self, group: KindGroup) -> None:
        """What is known of a group's chances is something else now."""
        self._changed_groups[group.kind.key] = None

    def open_groups(self) -> None:
        """What is known of all groups' chances does not hold any more."""
        self._some_woken = True
        for group in self._groups.values():
            group.version = NEW

    def shorten_backoffs(self, policy: Policy, now_ms: int) -> list[str]:
        """No pod waits for longer than a policy says from now on; answers with the uids of pods
        whose own back-off ends sooner."""
        for group in self._groups.values():
            if group.retry_at_ms <= now_ms:
                continue
            latest_ms = now_ms + backoff_ms(policy, group.failures)
            if group.retry_at_ms > latest_ms:
                group.retry_at_ms = latest_ms
                self.group_changed(group)
        sooner = []
        for uid in dict.fromkeys([uid for *_, uid in self._delayed] + list(self._excluded)):
            waiting = self._waiting.get(uid)
            if waiting is None:
                continue
            latest_ms = now_ms + backoff_ms(policy, waiting.attempt)
            if waiting.not_before_ms > latest_ms:
                waiting.not_before_ms = latest_ms
                sooner.append(uid)
                if not waiting.excluded:
                    heapq.heappush(self._delayed, (latest_ms, waiting.sequence, uid))
        return sooner

    def restore_group(self, row: WaitingGroupRow, version: int) -> None:
        """Take over what a row says of a group that waits; `version` is the placer's now."""
        group = self._groups.get(bytes.fromhex(row.kind))
        if group is None:
            return
        group.failures, group.retry_at_ms = row.failures, row.retry_at_ms
        group.opened_by, group.version = row.opened_by, NEW if row.woken else version
        if not row.woken:
            self._asleep[group.kind.key] = None

    def changed_groups(self) -> Iterator[tuple[bytes, KindGroup | None]]:
        """Digest of each group whose row is to be written, and the group if it is still there."""
        changed, self._changed_groups = self._changed_groups, {}
        if self._some_woken:
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

    def forget_changed(self) -> None:
        """It is not asked which groups have changed."""
        self._changed_groups.clear()

    def release_delayed(self, now_ms: int) -> None:
        """Let pods whose own back-off is over join their groups."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            due_ms, _, uid = heapq.heappop(self._delayed)
            waiting = self._waiting.get(uid)
            if waiting is not None and waiting.not_before_ms == due_ms:
                self.add(waiting, now_ms)

    def due(self, now_ms: int) -> list[tuple[Waiting, KindGroup]]:
        """Groups to try now, each with its first request, in no order that matters."""
        ready = [
            group
            for group in self._groups.values()
            if now_ms >= group.retry_at_ms or self.is_woken(group)
        ]
        return [(waiting, group) for group in ready if (waiting := self.next_of(group))]

    def next_of(self, group: KindGroup) -> Waiting | None:
        """The request of a group that is to be placed first; None: no pod waits in it any more."""
        while group.heap:
            priority, sequence, uid = group.heap[0]
            waiting = self._waiting.get(uid)
            if waiting is not None and uid in group.uids and waiting.rank == (priority, sequence):
                return waiting
            heapq.heappop(group.heap)
        return None

    def first(self, group: KindGroup, count: int) -> list[Waiting]:
        """The first requests of a group, in order."""
        live = [self._waiting[uid] for uid in group.uids]
        return heapq.nsmallest(count, live, key=lambda waiting: waiting.rank)


def backoff_ms(policy: Policy, failures: int) -> int:
    """How long to wait after a number of failures in a row, at least 1."""
    first_ms = policy.initial_backoff_seconds * 1000
    most_ms = policy.max_backoff_seconds * 1000
    return int(min(first_ms * 2 ** min(failures - 1, 40), most_ms))
