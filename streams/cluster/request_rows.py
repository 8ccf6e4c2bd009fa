"""Rows of waiting requests and of their groups."""

from collections.abc import Iterable, Iterator

from schemas.storage.rows import PendingRequestRow, WaitingGroupRow
from schemas.topics.codec import encode
from streams.cluster.placement import Placement
from streams.inventory.inventory import Inventory
from streams.placement.pending import KindGroup, WaitingRequest
from streams.pods.kind import intern_pod
from streams.stage.tracked_rows import TrackedRows


class RequestRows(TrackedRows[str, WaitingRequest]):
    """Rows of kind `pending_requests` of one cluster, by the uid of the pod."""

    def __init__(self, cluster: str, inventory: Inventory, placement: Placement) -> None:
        super().__init__("pending_requests")
        self._cluster, self._inventory, self._pending = cluster, inventory, placement.pending
        self.changed = placement.changed_requests

    def build_row(self, key: str) -> PendingRequestRow | None:
        waiting = self._pending.get(key)
        if waiting is None:
            return None
        return PendingRequestRow(
            cluster=self._cluster,
            request=waiting.request,
            attempt=waiting.attempt,
            sequence=waiting.sequence,
            not_before_ms=waiting.not_before_ms,
            applied=waiting.applied,
            list_id=waiting.list_id,
            excluded=waiting.excluded,
        )

    def restore_row(self, row: PendingRequestRow) -> None:
        waiting = WaitingRequest(
            row.request,
            intern_pod(row.request.pod),
            row.sequence,
            row.attempt,
            row.not_before_ms,
            row.applied,
            row.list_id,
            row.excluded,
        )
        if waiting.attempt:
            self._pending.add(waiting, self._inventory.now_ms)
        else:
            self._pending.defer(waiting)

    def restore(self, rows: Iterable[PendingRequestRow]) -> None:
        super().restore(sorted(rows, key=lambda row: row.sequence))


class GroupRows(TrackedRows[str, KindGroup]):
    """Rows of kind `waiting_groups` of one cluster, by the digest of the kind of pods.

    They must be restored after nodes and requests: a group refers to a version of the index.
    """

    def __init__(self, cluster: str, inventory: Inventory, placement: Placement) -> None:
        super().__init__("waiting_groups")
        self._cluster, self._inventory, self._pending = cluster, inventory, placement.pending

    def take_changed_rows(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield digest and row of each group changed since the last call; None for a deleted row."""
        for digest, group in self._pending.take_changed_groups():
            yield digest.hex(), self._encode(group)

    def restore(self, rows: Iterable[WaitingGroupRow]) -> None:
        group_rows = list(rows)
        version = self._inventory.update_index().version if group_rows else 0
        for row in group_rows:
            self._pending.restore_group(row, version)

    def _encode(self, group: KindGroup | None) -> bytes | None:
        if group is None:
            return None
        woken = self._pending.is_woken(group)
        if woken and not (group.failures or group.retry_at_ms):
            return None
        row = WaitingGroupRow(
            cluster=self._cluster,
            kind=group.kind.key.hex(),
            failures=group.failures,
            retry_at_ms=group.retry_at_ms,
            opened_by=group.opened_by,
            woken=woken,
        )
        return encode(row)
