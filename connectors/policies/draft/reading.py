"""Reads a cluster's history from the end of its partitions, and only so far back.

How far: as long before the newest metric as is asked for, and of every topic a bounded number of
records. Not guaranteed: pods and nodes that were reported last before that; full lists repeat them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import Looked, Past
from connectors.policies.draft.history import (
    RESOURCES,
    Amounts,
    History,
    MeanUsage,
    PodSeen,
    median_gap_ms,
)
from schemas.base.capacity import merge_raw_allocatable
from schemas.base.quantities import parse_amounts, parse_nanos, round_amount
from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod, PodLifecycle
from schemas.messages.usage import NodeUsage
from schemas.messages.workloads import DisruptionBudget

#: Most records of one topic that are looked at: 5,000 nodes for 40 minutes, 100 for a day.
RECORDS_MAX = 200_000
#: Most samples of a partition: the time between two of a node is all that is wanted.
_SAMPLES_MAX = 5_000
#: What Kubernetes takes if a pod names none.
_DEFAULT_SCHEDULER = "default-scheduler"


def read_history(connection: Connection, cluster: str, back_ms: int) -> History:
    """The history of a cluster; without readings if no metric names it.

    Raises BrokerUnavailable.
    """
    history = History()
    newest = _metrics(connection, cluster, back_ms, history)
    if not history.readings:
        return history
    # Metrics may begin later than is asked for: nothing else is counted over a longer time.
    since_ms = min(each.at_ms for each in history.readings)
    history.allocatable = _nodes(connection, cluster)
    _pods(connection, cluster, since_ms, history, newest)
    history.sample_ms = _between_samples(connection, cluster)
    history.evictions = Counter(
        each.result
        for each in _newest(connection, "command-outcomes", cluster)
        if each.command == "evict" and each.happened_at_ms >= since_ms
    )
    return history


def _newest(connection: Connection, topic: str, cluster: str) -> Iterator[Any]:
    return Past(connection, topic, cluster, RECORDS_MAX).newest(Looked())


def _metrics(
    connection: Connection, cluster: str, back_ms: int, history: History
) -> dict[str, NodeMetric]:
    """Fills in what metrics say; answers with the newest of each node."""
    looked = Looked()
    newest: dict[str, NodeMetric] = {}
    since_ms: int | None = None
    windows: set[int] = set()
    begun = True
    for metric in Past(connection, "node-metrics", cluster, RECORDS_MAX).newest(looked):
        if metric.updated_at_ms is None or metric.usage is None or metric.removed:
            continue
        if since_ms is None:
            since_ms = metric.updated_at_ms - back_ms
        # Metrics of several nodes are not quite in the order of their times.
        if metric.updated_at_ms < since_ms:
            begun = False
            break
        newest.setdefault(metric.node, metric)
        windows.update(each.duration_ms for each in metric.aggregated if each.usage)
        usage = tuple(metric.usage.get(name) for name in RESOURCES)
        history.readings.append(MeanUsage(metric.node, metric.updated_at_ms, usage))
    history.whole = looked.whole or not begun
    history.windows_ms = frozenset(windows)
    return newest


def _nodes(connection: Connection, cluster: str) -> dict[str, Amounts]:
    """What the nodes that there are can give."""
    found: dict[str, Amounts | None] = {}
    for state in _newest(connection, "node-state", cluster):
        if isinstance(state, NodeState) and state.node not in found:
            removed = state.event == "removed"
            found[state.node] = None if removed else _capacity(state)
    return {name: capacity for name, capacity in found.items() if capacity is not None}


def _pods(
    connection: Connection,
    cluster: str,
    since_ms: int,
    history: History,
    metrics: Mapping[str, NodeMetric],
) -> None:
    """Fills in what is known of pods and budgets."""
    pods: dict[str, Pod | None] = {}
    started: set[str] = set()
    budgets: dict[tuple[str, str], bool] = {}
    for message in _newest(connection, "pod-lifecycle", cluster):
        if isinstance(message, DisruptionBudget):
            budgets.setdefault((message.namespace, message.name), not message.removed)
        if not isinstance(message, PodLifecycle):
            continue
        pod = message.pod
        over = message.event in ("finished", "deleted") or pod.phase in ("Succeeded", "Failed")
        pods.setdefault(pod.uid, None if over else pod)
        start_ms = _start_ms(pod)
        if start_ms is not None and start_ms >= since_ms and pod.node is not None:
            started.add(pod.uid)
    alive = {uid: pod for uid, pod in pods.items() if pod is not None}
    requests = {
        uid: _amounts([each.requests for each in pod.containers]) for uid, pod in alive.items()
    }
    history.pods = [
        PodSeen(_owner(pod), pod.scheduler or _DEFAULT_SCHEDULER, requests[uid])
        for uid, pod in alive.items()
    ]
    uids = {(pod.namespace, pod.name): uid for uid, pod in alive.items()}
    for metric in metrics.values():
        for each in metric.pods:
            uid = uids.get((each.namespace, each.name))
            if uid is not None and each.usage:
                usage = tuple(each.usage.get(name) for name in RESOURCES)
                history.used.append((usage, requests[uid]))
    history.started = len(started)
    history.budgets = sum(budgets.values())


def _start_ms(pod: Pod) -> int | None:
    return pod.scheduled_at_ms or pod.created_at_ms


def _owner(pod: Pod) -> str:
    for owner in pod.owners:
        if owner.controller:
            return owner.uid or f"{owner.kind}/{owner.name}"
    return f"{pod.namespace}/{pod.name}"


def _capacity(state: NodeState) -> Amounts:
    """What thresholds are percentages of; none: of what the node does not name."""
    capacity = merge_raw_allocatable(parse_amounts(state.allocatable), state.annotations)
    return tuple(capacity.get(name) for name in RESOURCES)


def _amounts(lists: list[dict[str, str]]) -> Amounts:
    """Sums of quantities; none: no list names the resource."""
    sums: list[int | None] = []
    for name in RESOURCES:
        named = [each[name] for each in lists if name in each]
        sums.append(round_amount(name, sum(map(parse_nanos, named))) if named else None)
    return tuple(sums)


def _between_samples(connection: Connection, cluster: str) -> int | None:
    """Time between two samples of a node; none: no node has two among the newest."""
    past = Past(connection, "node-usage", None, _SAMPLES_MAX)
    return median_gap_ms(
        (sample.node, sample.sampled_at_ms)
        for sample in past.newest(Looked())
        if isinstance(sample, NodeUsage) and sample.cluster == cluster
    )
