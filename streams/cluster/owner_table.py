"""What is known of owners as rows, one an owner.

A row is written when the figures are worked out anew, and when a pod of the owner has ended.
"""

from collections.abc import Iterator

from schemas.usage_moments import FleetFigures, OwnerUsageRow, PastPods
from schemas.usage_moments import OwnerFigures as FiguresPart
from streams.inventory.fleet_usage import Fleet
from streams.inventory.inventory import Inventory
from streams.inventory.owner_usage import HORIZONS, SUMS, Owner, OwnerFigures, OwnerUsage
from streams.stage.tracked_table import TrackedTable


class OwnerUsageTable(TrackedTable[str, OwnerUsageRow]):
    """Table `owner_usage` of one cluster, by namespace, kind and name."""

    def __init__(self, cluster: str, inventory: Inventory) -> None:
        super().__init__("owner_usage")
        self._cluster, self._moments = cluster, inventory.moments

    @property
    def _owners(self) -> OwnerUsage | None:
        return None if self._moments.fleet is None else self._moments.fleet.owners

    def row(self, key: str) -> OwnerUsageRow | None:
        """The row of an owner; None: it is forgotten, or no plugin asks."""
        fleet, owners = self._moments.fleet, self._owners
        known = None if owners is None else owners.owners.get(key)
        if fleet is None or known is None:
            return None
        namespace, kind, name = key.split("/", 2)
        figures = zip(fleet.resources, known.figures, strict=False)
        return OwnerUsageRow(
            cluster=self._cluster,
            namespace=namespace,
            kind=kind,
            name=name,
            seen_at_ms=known.seen_at_ms,
            figures={resource: _part(each) for resource, each in figures},
            past={
                resource: tuple(PastPods(**dict(zip(_PAST, sums, strict=True))) for sums in past)
                for index, resource in enumerate(fleet.resources)
                if any(map(any, past := [gone[SUMS * index :][:SUMS] for gone in known.past]))
            },
        )

    def note_changed(self) -> None:
        """Owners that have changed since the last call."""
        self.changed.update(self._moments.changed_owners)
        self._moments.changed_owners.clear()
        if self._owners is not None:
            self.changed.update(self._owners.changed)
            self._owners.changed.clear()

    def take(self, row: OwnerUsageRow) -> None:
        """Take over a row; nothing of it where the policy asks for other resources."""
        fleet, owners = self._moments.fleet, self._owners
        if fleet is None or owners is None:
            return
        nothing = ((0,) * SUMS,) * len(HORIZONS)
        of_resources = [
            tuple(tuple(getattr(each, name) for name in _PAST) for each in row.past[resource])
            if resource in row.past
            else nothing
            for resource in fleet.resources
        ]
        past = tuple(
            tuple(figure for sums in of_resources for figure in sums[index])
            for index in range(len(HORIZONS))
        )
        figures = tuple(
            _figures(row.figures[name]) for name in fleet.resources if name in row.figures
        )
        owners.take(
            f"{row.namespace}/{row.kind}/{row.name}",
            Owner(row.seen_at_ms, past, figures),
            fleet.figures,
        )

    def restore(self, rows: Iterator[OwnerUsageRow]) -> None:  # type: ignore[override]
        """Take over all rows; of a new table only."""
        super().restore(rows)
        self._moments.changed_owners.clear()


_PAST = tuple(PastPods.model_fields)


def _part(figures: OwnerFigures) -> FiguresPart:
    return FiguresPart(
        pods_milli=figures.pods_milli,
        own=FleetFigures(**figures.own._asdict()),
        weight_ppm=figures.weight_ppm,
        expected=FleetFigures(**figures.expected._asdict()),
    )


def _figures(part: FiguresPart) -> OwnerFigures:
    own, expected = (
        Fleet(each.usage_ppm, each.variance_ppm, each.spread_ppm)
        for each in (part.own, part.expected)
    )
    return OwnerFigures(part.pods_milli, own, part.weight_ppm, expected)
