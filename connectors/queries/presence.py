"""Whether a worker writes for a cluster, and whether a record names the cluster, a node or a pod of it.

Commands report this first: if the worker stopped three hours ago, every answer is three hours old, and
no worker reads a request for a mistyped cluster. A limited number of records of the topics that
producers write is searched, from the newest back.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages, SearchProgress
from connectors.units import ago_text, time_text
from schemas.messages.pods import PodLifecycle, PodRef

#: A worker ticks once a second, but is silent for longer while it takes over partitions. The alert
#: LoadstreamClockBehind fires after the same time.
SILENT_AFTER_MS = 30_000
#: Most records of one topic that are read.
RECORDS_MAX = 20_000
#: Records of each topic that are searched for a cluster with a similar name.
_SIMILAR_RECORDS_MAX = 200
#: Records that are searched for a pod.
_PODS_MAX = 100_000
#: Topics with records of producers; a policy or a request may itself contain a mistyped name.
_ABOUT_CLUSTERS = ("node-metrics", "pod-lifecycle", "node-state", "scheduling-requests")
#: Node states come first, because a removed node still has a metric.
_ABOUT_NODES = ("node-state", "node-metrics")


def last_tick_ms(connection: Connection, cluster: str) -> int | None:
    """Return the newest tick of the cluster's clock; None: it has never ticked."""
    tick = next(PastMessages(connection, "clock", cluster, 1_000).newest(), None)
    return None if tick is None else tick.now_ms


def describe_silence(tick_ms: int | None, now_ms: int) -> str | None:
    """Return a sentence if no worker writes or its clock is ahead; None: neither."""
    if tick_ms is None:
        return (
            "No worker has ever written for this cluster: its clock has never ticked. Start "
            "`loadstream worker`."
        )
    if now_ms - tick_ms > SILENT_AFTER_MS:
        return (
            f"No worker has written for {ago_text(now_ms - tick_ms)}: the cluster's clock stands at "
            f"{time_text(tick_ms)}. Nothing is decided until `loadstream worker` runs. If a worker runs, see "
            "its log; it may be waiting, or this machine's clock is ahead."
        )
    if tick_ms - now_ms > SILENT_AFTER_MS:
        return (
            f"The cluster's clock is {ago_text(tick_ms - now_ms)} ahead of this machine's: another program "
            "writes it, or one of the clocks is wrong. Ages are left out."
        )
    return None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search for a name."""

    exists: bool
    records: int = 0
    """Records that were read."""
    read_all: bool = True
    """Whether no limit was reached."""
    similar_name: str | None = None
    """A similar existing name."""
    was_removed: bool = False
    """Whether the object was removed."""

    def warning(self, name: str) -> str | None:
        """Return a sentence if no record names the object; None: a record does."""
        if self.exists:
            return None
        if self.was_removed:
            return f"{name} was removed."
        where = "" if self.read_all else f" in the newest {self.records} records"
        meant = f" Did you mean {self.similar_name}?" if self.similar_name else ""
        return f"{name} has never been seen{where}: no producer names it.{meant}"


def search_cluster(connection: Connection, cluster: str) -> SearchResult:
    """Search records of producers for a cluster. Raises BrokerUnavailable."""
    result = _search(connection, cluster, _ABOUT_CLUSTERS, lambda message: True)
    if result.exists:
        return result
    return _suggest(result, cluster, _list_clusters(connection))


def search_node(connection: Connection, cluster: str, node: str) -> SearchResult:
    """Search records of producers for a node that was not removed. Raises BrokerUnavailable."""
    names: dict[str, bool] = {}

    def is_node(message: Any) -> bool:
        name = getattr(message, "node", None)
        if name is not None:
            names.setdefault(name, getattr(message, "event", "") != "removed")
        return name == node

    result = _search(connection, cluster, _ABOUT_NODES, is_node)
    if result.exists and names[node]:
        return result
    if result.exists:
        return SearchResult(False, was_removed=True)
    return _suggest(result, node, (name for name, is_there in names.items() if is_there))


def _search(
    connection: Connection, cluster: str, topics: tuple[str, ...], is_match: Callable[[Any], bool]
) -> SearchResult:
    records, read_all = 0, True
    for topic in topics:
        progress = SearchProgress()
        for message in PastMessages(connection, topic, cluster, RECORDS_MAX).newest(progress):
            if is_match(message):
                return SearchResult(True)
        records, read_all = records + progress.records, read_all and progress.whole
    return SearchResult(False, records, read_all)


def _suggest(result: SearchResult, name: str, existing: Iterable[str]) -> SearchResult:
    """Add a similar existing name."""
    similar = get_close_matches(name, sorted(existing), n=1)
    return replace(result, similar_name=next(iter(similar), None))


def _list_clusters(connection: Connection) -> Iterator[str]:
    for topic in _ABOUT_CLUSTERS:
        for message in PastMessages(connection, topic, None, _SIMILAR_RECORDS_MAX).newest():
            yield message.cluster


def find_pod(connection: Connection, cluster: str, namespace: str, name: str) -> PodRef | str:
    """Return the pod, or a sentence that it is unknown or has ended. Raises BrokerUnavailable."""
    progress = SearchProgress()
    past = PastMessages(connection, "pod-lifecycle", cluster, _PODS_MAX)
    for message in past.newest(progress):
        if not isinstance(message, PodLifecycle):
            continue
        pod = message.pod
        if (pod.namespace, pod.name) != (namespace, name):
            continue
        if message.event in ("deleted", "finished"):
            return f"pod {namespace}/{name} of cluster {cluster} has ended: it was {message.event}"
        return PodRef(namespace=namespace, name=name, uid=pod.uid)
    where = "topic pod-lifecycle"
    if not progress.whole:
        where = f"the newest {progress.records} records of {where}"
    return f"pod {namespace}/{name} of cluster {cluster} is not in {where}"
