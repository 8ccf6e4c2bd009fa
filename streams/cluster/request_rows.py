"""Rows of requests that wait, and of what is known of their kinds."""

from collections.abc import Iterable, Iterator

import orjson

from schemas.storage.rows import PendingRequestRow, WaitingGroupRow
from streams.cluster.placement import Placement
from streams.inventory.inventory import Inventory
from streams.placement.pending import KindGroup, Waiting
from streams.pods.kind import kind_of
from streams.stage.tracked_rows import TrackedRows


class RequestRows(TrackedRows[str, Waiting]):
    """Rows of kind `pending_requests` of one cluster, by the uid of the pod."""

    def __init__(self, cluster: str, inventory: Inventory, placement: Placement) -> None:
        super().__init__("pending_requests")
        self._cluster, self._inventory, self._pending = cluster, inventory, placement.pending
        self.changed = placement.changed_requests

    def row(self, key: str) -> PendingRequestRow | None:
        """The row of a pod's request; None: it does not wait."""
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

    def take(self, row: PendingRequestRow) -> None:
        """Take over a row as it was written."""
        waiting = Waiting(
            row.request,
            kind_of(row.request.pod),
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
            self._pending.keep(waiting)

    def restore(self, rows: Iterable[PendingRequestRow]) -> None:
        """Take over all rows; while nothing is kept only."""
        super().restore(sorted(rows, key=lambda row: row.sequence))


class GroupRows(TrackedRows[str, KindGroup]):
    """Rows of kind `waiting_groups` of one cluster, by the digest of the kind of pods.

    What they are known to have been tried against is a version of the nodes, so they are restored
    after nodes and requests.
    """

    def __init__(self, cluster: str, inventory: Inventory, placement: Placement) -> None:
        super().__init__("waiting_groups")
        self._cluster, self._inventory, self._pending = cluster, inventory, placement.pending

    def settle(self) -> None:
        """Note what has changed as written."""
        self._pending.forget_changed()

    def changed_rows(self) -> Iterator[tuple[str, bytes | None]]:
        """Digest and row of what has changed since the last call; None: nothing is known."""
        for digest, group in self._pending.changed_groups():
            yield digest.hex(), self._encode(group)

    def restore(self, rows: Iterable[WaitingGroupRow]) -> None:
        """Take over all rows; while nothing is kept only."""
        known = list(rows)
        version = self._inventory.lay_out().version if known else 0
        for row in known:
            self._pending.restore_group(row, version)

    def _encode(self, group: KindGroup | None) -> bytes | None:
        """What `encode` makes of a `WaitingGroupRow`: thousands of them may change with one policy."""
        if group is None:
            return None
        woken = self._pending.is_woken(group)
        if woken and not (group.failures or group.retry_at_ms):
            return None
        return orjson.dumps(
            {
                "cluster": self._cluster,
                "failures": group.failures,
                "kind": group.kind.key.hex(),
                "opened_by": group.opened_by,
                "retry_at_ms": group.retry_at_ms,
                "schema_version": 1,
                "woken": woken,
            }
        )
