"""Rows of usage per pod over its lifetime, and of the usage of all pods of the cluster."""

from collections.abc import Iterable

from schemas.storage.usage_statistics import FleetUsageRow, PodUsageRow, UsageColumns
from streams.inventory.inventory import Inventory
from streams.risk.fleet_usage import decode_fleet_usage, encode_fleet_usage
from streams.risk.lifetimes import RECENT_FIGURES, Lifetime
from streams.risk.node_statistics import SYSTEM
from streams.stage.tracked_rows import TrackedRows


class PodUsageRows(TrackedRows[str, PodUsageRow]):
    """Rows of kind `pod_usage` of one cluster, by node.

    A row is written once per window, when a metric has extended the lifetimes. It contains all pods of the
    node, and the pods that have gone since the previous window.
    """

    def __init__(self, cluster: str, inventory: Inventory) -> None:
        super().__init__("pod_usage")
        self._cluster, self._inventory = cluster, inventory
        self.changed = inventory.changed_lifetimes

    def build_row(self, key: str) -> PodUsageRow | None:
        """Return the row of a node; None before a metric has extended its lifetimes."""
        node = self._inventory.nodes.get(key)
        statistics = None if node is None else node.statistics
        if statistics is None or statistics.extended_at_ms is None:
            return None
        uids = sorted(uid for uid in statistics.lifetimes if uid != SYSTEM)
        keys = [*uids, *([SYSTEM] if SYSTEM in statistics.lifetimes else [])]
        lifetimes = [statistics.lifetimes[key] for key in keys]
        usages = [lifetime.usage for lifetime in lifetimes]
        # Either all lifetimes have recent usage, or none has.
        recents = [lifetime.recent for lifetime in lifetimes if lifetime.recent]
        return PodUsageRow(
            cluster=self._cluster,
            node=key,
            extended_at_ms=statistics.extended_at_ms,
            whole=statistics.extended_by_whole_node,
            reported=statistics.extended_by_report,
            uids=tuple(uids),
            minutes=tuple(lifetime.minutes for lifetime in lifetimes),
            usage={
                name: UsageColumns(
                    mean=tuple(usage[2 * index] for usage in usages),
                    deviation=tuple(usage[2 * index + 1] for usage in usages),
                    recent=tuple(recent[RECENT_FIGURES * index] for recent in recents),
                    recent_root=tuple(recent[RECENT_FIGURES * index + 1] for recent in recents),
                    lasting_ppm=tuple(recent[RECENT_FIGURES * index + 2] for recent in recents),
                )
                for index, name in enumerate(statistics.fleet.resources)
            },
        )

    def restore_row(self, row: PodUsageRow) -> None:
        """Restore a row, unless the policy uses other resources now."""
        node = self._inventory.nodes.get(row.node)
        statistics = None if node is None else node.statistics
        if node is None or statistics is None or set(row.usage) != set(statistics.fleet.resources):
            return
        columns = [row.usage[name] for name in statistics.fleet.resources]
        usages = [values for column in columns for values in (column.mean, column.deviation)]
        recents = [
            values
            for column in columns
            if column.recent
            for values in (column.recent, column.recent_root, column.lasting_ppm)
        ]
        lifetimes = {
            key: Lifetime(
                row.minutes[index],
                tuple([values[index] for values in usages]),
                tuple([values[index] for values in recents]),
            )
            for index, key in enumerate([*row.uids, SYSTEM][: len(row.minutes)])
        }
        statistics.restore(
            node.held.values(),
            lifetimes,
            row.extended_at_ms,
            whole=row.whole,
            reported=row.reported,
        )


class FleetUsageRows(TrackedRows[str, FleetUsageRow]):
    """The row of kind `fleet_usage` of one cluster."""

    def __init__(self, cluster: str, inventory: Inventory) -> None:
        super().__init__("fleet_usage")
        self._cluster, self._inventory = cluster, inventory

    def build_row(self, key: str) -> FleetUsageRow | None:
        """Return the row; None if all figures are still priors, or if no plugin uses them."""
        fleet = self._inventory.fleet
        if fleet is None or fleet.renewed_at_ms is None:
            return None
        return FleetUsageRow(
            cluster=self._cluster,
            renewed_at_ms=fleet.renewed_at_ms,
            resources=encode_fleet_usage(fleet.figures, fleet.args),
        )

    def note_changed(self) -> None:
        if self._inventory.fleet_changed:
            self.changed[""] = None
        self._inventory.fleet_changed = False

    def restore_row(self, row: FleetUsageRow) -> None:
        fleet = self._inventory.fleet
        if fleet is not None:
            fleet.figures = decode_fleet_usage(row.resources, fleet.args)
            fleet.renewed_at_ms = row.renewed_at_ms

    def restore(self, rows: Iterable[FleetUsageRow]) -> None:
        super().restore(rows)
        self._inventory.fleet_changed = False
