"""Whether a worker writes for a cluster, and whether anything names the cluster or a node of it.

A command that asks for something, or answers from what workers wrote, looks here first: an answer
of a worker that stopped three hours ago is three hours old, and a request that names a mistyped
cluster is read by no worker. Both are reported before anything else. The search goes back from the
end of the topics that producers write, and only so far; what it did not reach is reported as well.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import Looked, Past
from connectors.units import ago_text, time_text

#: A worker ticks once a second. One that takes partitions over, or whose tick waits for
#: confirmations, is silent for longer; LoadstreamClockBehind warns after as long.
SILENT_AFTER_MS = 30_000
#: Most records of one topic that are looked at.
RECORDS_MAX = 20_000
#: Records of each topic that are searched for a cluster whose name looks like a mistyped one.
_NAMES_FROM = 200
#: What producers write about a cluster; a policy or a request may hold a mistyped name itself.
_ABOUT_CLUSTERS = ("node-metrics", "pod-lifecycle", "node-state", "scheduling-requests")
#: A node that was removed has its last metric still, so its state is asked first.
_ABOUT_NODES = ("node-state", "node-metrics")


def last_tick_ms(connection: Connection, cluster: str) -> int | None:
    """The newest time in the cluster's log; none: its clock has never ticked."""
    tick = next(Past(connection, "clock", cluster, 1_000).newest(Looked()), None)
    return None if tick is None else tick.now_ms


def silence(tick_ms: int | None, now_ms: int) -> str | None:
    """That no worker writes, and for how long; none: one does."""
    if tick_ms is None:
        return (
            "No worker has ever written for this cluster: its clock has never ticked. Start "
            "`loadstream worker`."
        )
    if now_ms - tick_ms > SILENT_AFTER_MS:
        return (
            f"No worker has written for {ago_text(now_ms - tick_ms)}: the cluster's clock stands at "
            f"{time_text(tick_ms)}. Nothing is decided until `loadstream worker` runs; if one does, it "
            "waits, as its log says, or this machine's clock is ahead."
        )
    if tick_ms - now_ms > SILENT_AFTER_MS:
        return (
            f"The cluster's clock is {ago_text(tick_ms - now_ms)} ahead of this machine's: another program "
            "writes it, or one of the two is wrong. Ages are left out."
        )
    return None


@dataclass(frozen=True, slots=True)
class Sought:
    """The result of a search for a name."""

    found: bool
    records: int = 0
    """Records that were looked at."""
    whole: bool = True
    """They were all that there are."""
    close: str | None = None
    """A name that is there and looks like it."""
    removed: bool = False
    """It was there, and is not any more."""

    def warning(self, what: str) -> str | None:
        """That nothing names it; none: something does."""
        if self.found:
            return None
        if self.removed:
            return f"{what} was removed."
        where = "" if self.whole else f" in the newest {self.records} records looked at"
        meant = f" Did you mean {self.close}?" if self.close else ""
        return f"{what} has never been seen{where}: no producer names it.{meant}"


def seek_cluster(connection: Connection, cluster: str) -> Sought:
    """Whether producers have written about a cluster. Raises BrokerUnavailable."""
    found = _seek(connection, cluster, _ABOUT_CLUSTERS, lambda message: True)
    if found.found:
        return found
    close = get_close_matches(cluster, sorted(_clusters(connection)), n=1)
    return Sought(False, found.records, found.whole, close[0] if close else None)


def seek_node(connection: Connection, cluster: str, node: str) -> Sought:
    """Whether producers have written about a node that was not removed. Raises BrokerUnavailable."""
    names: dict[str, bool] = {}

    def is_it(message: Any) -> bool:
        name = getattr(message, "node", None)
        if name is not None:
            names.setdefault(name, getattr(message, "event", "") != "removed")
        return name == node

    found = _seek(connection, cluster, _ABOUT_NODES, is_it)
    if found.found and names[node]:
        return found
    if found.found:
        return Sought(False, removed=True)
    there = sorted(name for name, is_there in names.items() if is_there)
    close = get_close_matches(node, there, n=1)
    return Sought(False, found.records, found.whole, close[0] if close else None)


def _seek(
    connection: Connection, cluster: str, topics: tuple[str, ...], wanted: Callable[[Any], bool]
) -> Sought:
    records, whole = 0, True
    for topic in topics:
        looked = Looked()
        for message in Past(connection, topic, cluster, RECORDS_MAX).newest(looked):
            if wanted(message):
                return Sought(True)
        records, whole = records + looked.records, whole and looked.whole
    return Sought(False, records, whole)


def _clusters(connection: Connection) -> Iterator[str]:
    """Clusters that the newest records of every partition name."""
    for topic in _ABOUT_CLUSTERS:
        for message in Past(connection, topic, None, _NAMES_FROM).newest(Looked()):
            yield message.cluster
