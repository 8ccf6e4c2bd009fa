"""Rows of what pods used over their lives, and of what the pods of a cluster use of their requests."""

from collections.abc import Iterable

from schemas.storage.usage_moments import FleetUsageRow, PodUsageRow, UsageColumns
from streams.inventory.fleet_usage import decode_fleet_usage, encode_fleet_usage
from streams.inventory.inventory import Inventory
from streams.inventory.node_lives import SYSTEM, NodeLives
from streams.inventory.recent import FIGURES
from streams.stage.tracked_rows import TrackedRows


class PodUsageRows(TrackedRows[str, PodUsageRow]):
    """Rows of kind `pod_usage` of one cluster, by node.

    A row is written when a metric has been added to the lives, once in a window: with all pods of the
    node, and with those that have gone since the window before.
    """

    def __init__(self, cluster: str, inventory: Inventory) -> None:
        super().__init__("pod_usage")
        self._cluster, self._inventory = cluster, inventory

    def row(self, key: str) -> PodUsageRow | None:
        """The row of a node; None: nothing has been added to any life there."""
        node = self._inventory.nodes.get(key)
        moments = None if node is None else node.moments
        if moments is None or moments.lives.folded_at_ms is None:
            return None
        kept = moments.lives
        uids = sorted(uid for uid in kept.of if uid != SYSTEM)
        keys = [*uids, *([SYSTEM] if SYSTEM in kept.of else [])]
        lives = [kept.of[key] for key in keys]
        # Of all of them, or of none.
        recents = [kept.recents[key] for key in keys if kept.recents]
        return PodUsageRow(
            cluster=self._cluster,
            node=key,
            folded_at_ms=moments.lives.folded_at_ms,
            whole=kept.whole,
            reported=kept.reported,
            uids=tuple(uids),
            minutes=tuple(life[0] for life in lives),
            usage={
                name: UsageColumns(
                    mean=tuple(life[1 + 2 * index] for life in lives),
                    deviation=tuple(life[2 + 2 * index] for life in lives),
                    recent=tuple(recent[FIGURES * index] for recent in recents),
                    recent_root=tuple(recent[FIGURES * index + 1] for recent in recents),
                    lasting_ppm=tuple(recent[FIGURES * index + 2] for recent in recents),
                )
                for index, name in enumerate(moments.fleet.resources)
            },
        )

    def note_changed(self) -> None:
        """Nodes whose lives have changed since the last call."""
        self.changed.update(self._inventory.moments.changed)
        self._inventory.moments.changed.clear()

    def take(self, row: PodUsageRow) -> None:
        """Take over a row; nothing of it where the policy asks for other resources."""
        node = self._inventory.nodes.get(row.node)
        moments = None if node is None else node.moments
        if node is None or moments is None or set(row.usage) != set(moments.fleet.resources):
            return
        columns = [row.usage[name] for name in moments.fleet.resources]
        keys = [*row.uids, SYSTEM]
        lives = NodeLives()
        lives.folded_at_ms, lives.whole, lives.reported = row.folded_at_ms, row.whole, row.reported
        for index, minutes in enumerate(row.minutes):
            life, recent = [minutes], list[int]()
            for column in columns:
                life += (column.mean[index], column.deviation[index])
                if column.recent:
                    lately = (column.recent, column.recent_root, column.lasting_ppm)
                    recent += (figures[index] for figures in lately)
            lives.of[keys[index]] = tuple(life)
            if recent:
                lives.recents[keys[index]] = tuple(recent)
        moments.restore(node.held.values(), lives)

    def restore(self, rows: Iterable[PodUsageRow]) -> None:
        """Take over all rows; while nothing is kept only."""
        super().restore(rows)
        self._inventory.moments.changed.clear()


class FleetUsageRows(TrackedRows[str, FleetUsageRow]):
    """The row of kind `fleet_usage` of one cluster."""

    def __init__(self, cluster: str, inventory: Inventory) -> None:
        super().__init__("fleet_usage")
        self._cluster, self._moments = cluster, inventory.moments

    def row(self, key: str) -> FleetUsageRow | None:
        """The row; None: the figures are priors, or no plugin asks for them."""
        fleet, renewed_at_ms = self._moments.fleet, self._moments.renewed_at_ms
        if fleet is None or renewed_at_ms is None:
            return None
        return FleetUsageRow(
            cluster=self._cluster,
            renewed_at_ms=renewed_at_ms,
            resources=encode_fleet_usage(fleet.figures, fleet.args),
        )

    def note_changed(self) -> None:
        """The row, if it has changed since the last call."""
        if self._moments.fleet_changed:
            self.changed[""] = None
        self._moments.fleet_changed = False

    def take(self, row: FleetUsageRow) -> None:
        """Take over the row as it was written."""
        fleet = self._moments.fleet
        if fleet is not None:
            fleet.figures = decode_fleet_usage(row.resources, fleet.args)
            self._moments.renewed_at_ms = row.renewed_at_ms

    def restore(self, rows: Iterable[FleetUsageRow]) -> None:
        """Take over the row; while nothing is kept only."""
        super().restore(rows)
        self._moments.fleet_changed = False
