"""The collect policies of the clusters of one partition, and what changes of windows left of
earlier samples.

A cluster has the default until its first policy comes in the log. When its longest windows change,
samples that were too old for the windows until then are gone for good: longer windows fill up with
time, and shorter ones drop more at each node's next sample. A running stage drops them at once; in
rows they may stand beside others for long, so a change is kept for as long as a window is longer
than the one that it ended, and `counting` says which samples it left. That makes a restart the same
as none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.messages.collect import CollectPolicyRecord
from schemas.storage.percentiles import ClusterCollectPolicy, WindowChange
from streams.aggregate.collect import Collecting
from streams.aggregate.rows import numbered_key, policy_row
from streams.stage.records import RowChange

Ints = npt.NDArray[np.int64]

#: Most changes that are kept of a cluster. A further one counts together with the one before, by
#: the shorter windows of the two: where windows are made longer that often, it takes a little
#: longer until they are full.
CHANGES_MAX = 16


class Windows(NamedTuple):
    """How long samples count, and the changes that left fewer."""

    horizon_ms: int
    changes: tuple[tuple[int, int], ...] = ()
    """Offset of each change, and how long samples counted until then."""


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    """The policy of one cluster as it is kept."""

    sequence: int
    """Number of its row."""
    collecting: Collecting
    kept: ClusterCollectPolicy


class Policies:
    """Collect policies by cluster."""

    def __init__(self, default: Collecting, sequence: int) -> None:
        """`default` holds until a cluster's first policy; rows are numbered from `sequence` on."""
        self.default = default
        self.sequence = sequence
        """Number of the newest row."""
        self.all: dict[str, ClusterPolicy] = {}
        self._written: dict[str, None] = {}
        self._removed: dict[int, None] = {}

    def of(self, cluster: str) -> Collecting:
        """What holds for a cluster."""
        found = self.all.get(cluster)
        return self.default if found is None else found.collecting

    def windows(self, cluster: str) -> tuple[Windows, Windows]:
        """How long samples of a cluster count, and how long figures of pods."""
        collecting, found = self.of(cluster), self.all.get(cluster)
        changes = () if found is None else found.kept.changes
        return (
            Windows(
                collecting.horizon_ms, tuple((each.offset, each.horizon_ms) for each in changes)
            ),
            Windows(
                collecting.average_horizon_ms,
                tuple((each.offset, each.average_horizon_ms) for each in changes),
            ),
        )

    def put(self, record: CollectPolicyRecord, offset: int) -> WindowChange | None:
        """Another policy holds from here on; answers how long samples counted, where that changes."""
        cluster = record.cluster
        before, after, found = (
            self.of(cluster),
            Collecting.of(record.default, record.pools),
            self.all.get(cluster),
        )
        changes = () if found is None else found.kept.changes
        change = None
        if (before.horizon_ms, before.average_horizon_ms) != (
            after.horizon_ms,
            after.average_horizon_ms,
        ):
            change = WindowChange(
                offset=offset,
                horizon_ms=before.horizon_ms,
                average_horizon_ms=before.average_horizon_ms,
            )
            changes = _with(changes, change)
            change = changes[-1]
        self._keep(after, ClusterCollectPolicy(offset=offset, record=record, changes=changes))
        return change

    def restore(self, rows: Mapping[str, tuple[int, ClusterCollectPolicy]]) -> list[str]:
        """Take over rows that hold, by key, each with its number; answers with the keys of those
        that were replaced."""
        names: dict[str, str] = {}
        replaced = []
        for name, (sequence, kept) in sorted(rows.items(), key=lambda each: each[1][0]):
            cluster = kept.record.cluster
            if cluster in names:
                replaced.append(names[cluster])
            names[cluster] = name
            self.all[cluster] = ClusterPolicy(
                sequence, Collecting.of(kept.record.default, kept.record.pools), kept
            )
        return replaced

    def changes(self, partition: int) -> tuple[list[RowChange], list[RowChange]]:
        """Rows to write and rows to remove since the last call."""
        policies = [self.all[cluster] for cluster in self._written]
        written = [policy_row(partition, each.sequence, each.kept) for each in policies]
        gone = [
            RowChange(numbered_key(partition, "collect_policies", sequence), None)
            for sequence in self._removed
        ]
        self.settle()
        return written, gone

    def settle(self) -> None:
        """Nothing is to be written any more."""
        self._written, self._removed = {}, {}

    def _keep(self, collecting: Collecting, kept: ClusterCollectPolicy) -> None:
        cluster = kept.record.cluster
        before = self.all.get(cluster)
        if before is not None:
            self._removed[before.sequence] = None
        self.sequence += 1
        self.all[cluster] = ClusterPolicy(self.sequence, collecting, kept)
        self._written[cluster] = None


def counting(times: Ints, offsets: Ints, windows: Windows) -> npt.NDArray[np.bool_]:
    """Which samples of a node count, of those that rows have; shape (samples,).

    Args:
        times: of the samples, in ms.
        offsets: of their records.
        windows: those of the node's cluster.
    """
    counts: npt.NDArray[np.bool_] = times >= times.max() - windows.horizon_ms
    for offset, horizon_ms in windows.changes:
        before = offsets < offset
        if before.any():
            counts &= ~before | (times >= times[before].max() - horizon_ms)
    return counts


def _with(changes: Iterable[WindowChange], newest: WindowChange) -> tuple[WindowChange, ...]:
    """The changes and one more; one that left no fewer samples than the newest says nothing any
    more."""
    kept = [
        each
        for each in changes
        if each.horizon_ms < newest.horizon_ms
        or each.average_horizon_ms < newest.average_horizon_ms
    ]
    if len(kept) >= CHANGES_MAX:
        last = kept.pop()
        newest = WindowChange(
            offset=newest.offset,
            horizon_ms=min(last.horizon_ms, newest.horizon_ms),
            average_horizon_ms=min(last.average_horizon_ms, newest.average_horizon_ms),
        )
    return (*kept, newest)
