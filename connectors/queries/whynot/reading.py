"""Reads the newest records of a cluster from the end of its partitions.

Reads the rounds of the hour before the newest round, or of the requested time, and a limited number
of records per topic.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages, SearchProgress
from connectors.policies.entries import find_newest_entry
from connectors.queries.presence import last_tick_ms, search_cluster
from connectors.queries.whynot.evidence import Evidence, has_name
from connectors.units import time_text
from schemas.base.capacity import find_impossible
from schemas.base.quantities import parse_amounts
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.messages.rounds import RebalanceRound
from schemas.policy import PolicyError, read_policy

#: Most records of one topic that are read.
RECORDS_MAX = 20_000
#: Most rounds and most reports of each kind that are kept.
ROUNDS_MAX, REPORTS_MAX = 1_000, 20

#: Yields the messages of a topic, newest first; the second argument is the progress of the search.
Newest = Callable[..., Iterator[Any]]


def read_evidence(
    connection: Connection,
    cluster: str,
    now_ms: int,
    *,
    node: str | None = None,
    pod: tuple[str, str] | None = None,
    back_ms: int = 3_600_000,
) -> Evidence:
    """Return the records for an answer about a cluster, a node or a pod. Raises BrokerUnavailable.

    `now_ms` is the time on this machine, and `pod` a namespace and a name. Rounds are read for `back_ms`
    before the newest round.
    """

    def newest(topic: str, progress: SearchProgress | None = None) -> Iterator[Any]:
        return PastMessages(connection, topic, cluster, RECORDS_MAX).newest(progress)

    evidence = Evidence(cluster, now_ms, last_tick_ms(connection, cluster))
    entry = find_newest_entry(connection, cluster)
    if entry is not None:
        set_policy(evidence, entry.record)
    read_records(evidence, newest, node=node, pod=pod, back_ms=back_ms)
    # A policy of a mistyped cluster name causes rounds without nodes.
    if not evidence.rounds or not any(
        sum(pool.nodes.values()) for pool in evidence.rounds[0].pools
    ):
        evidence.unknown_cluster = search_cluster(connection, cluster).warning(f"Cluster {cluster}")
    return evidence


def set_policy(evidence: Evidence, record: PolicyRecord) -> None:
    evidence.paused = record.paused
    reason = f" ({record.reason})" if record.reason else ""
    evidence.policy_text = f"{time_text(record.applied_at_ms)}{reason}"
    with suppress(PolicyError):  # no worker has read it yet
        evidence.policy = read_policy(record.document)


def read_records(
    evidence: Evidence,
    newest: Newest,
    *,
    node: str | None = None,
    pod: tuple[str, str] | None = None,
    back_ms: int = 3_600_000,
) -> None:
    """Read rounds and the records about a node or a pod; see `read_evidence`."""
    _read_rounds(evidence, back_ms, newest)
    if node is not None:
        _read_node(evidence, node, newest)
    if pod is not None:
        _read_pod(evidence, *pod, newest)


def _read_rounds(evidence: Evidence, back_ms: int, newest: Newest) -> None:
    progress = SearchProgress()
    rounds: dict[str, RebalanceRound] = {}
    since_ms = 0
    reached = False
    for round_ in newest("status", progress):
        if not isinstance(round_, RebalanceRound):
            continue
        # After a crash a worker publishes the outputs of its last batch again.
        rounds.setdefault(round_.round_id, round_)
        since_ms = since_ms or round_.decided_at_ms - back_ms
        reached = round_.decided_at_ms < since_ms
        if reached or len(rounds) == ROUNDS_MAX:
            break
    evidence.rounds = tuple(r for r in rounds.values() if r.decided_at_ms >= since_ms)
    evidence.is_cut_off = bool(rounds) and not reached and not progress.whole
    evidence.records, evidence.read_all = progress.records, progress.whole


def _read_reports(evidence: Evidence, newest: Newest, concerns: Callable[[Any], bool]) -> None:
    """Read the newest drain, migrations and outcomes of moves that concern a node or a pod."""
    reports = [
        message
        for message in newest("status")
        if not isinstance(message, RebalanceRound) and concerns(message)
    ]
    evidence.drain = next((r for r in reports if isinstance(r, DrainStatus)), None)
    migrations = (report for report in reports if isinstance(report, MigrationStatus))
    evidence.migrations = tuple(islice(migrations, REPORTS_MAX))
    moves = (report for report in reports if isinstance(report, MoveOutcome))
    evidence.moves = tuple(islice(moves, REPORTS_MAX))


def _read_node(evidence: Evidence, node: str, newest: Newest) -> None:
    progress = SearchProgress()
    for state in newest("node-state", progress):
        if getattr(state, "node", None) == node:
            evidence.nodes[node] = state
            break
    evidence.has_no_state = progress.whole and node not in evidence.nodes
    _read_metric(evidence, node, newest)

    def concerns(message: DrainStatus | MigrationStatus | MoveOutcome) -> bool:
        node_name = message.node if isinstance(message, DrainStatus) else message.source_node
        return node_name == node

    _read_reports(evidence, newest, concerns)


def _read_metric(evidence: Evidence, node: str, newest: Newest) -> None:
    """Read the newest metric that the cluster accepted, and why it refused a newer one."""
    state = evidence.nodes.get(node)
    for metric in newest("node-metrics"):
        if metric.node != node:
            continue
        why = None
        if state is not None and evidence.policy.compat == "loadstream":
            why = _find_refusal(metric, state)
        if why is None:
            evidence.metrics[node] = metric
            return
        evidence.refused = evidence.refused or why


def _find_refusal(metric: NodeMetric, state: NodeState) -> str | None:
    created_ms, updated_ms = state.created_at_ms, metric.updated_at_ms
    if created_ms is not None and updated_ms is not None and updated_ms < created_ms:
        return "it belongs to an earlier node of this name"
    return find_impossible(metric.usage or {}, parse_amounts(state.capacity))


def _read_pod(evidence: Evidence, namespace: str, name: str, newest: Newest) -> None:
    for metric in newest("node-metrics"):
        evidence.metrics.setdefault(metric.node, metric)
        if evidence.find_node(namespace, name) is not None:
            break

    def concerns(message: DrainStatus | MigrationStatus | MoveOutcome) -> bool:
        return not isinstance(message, DrainStatus) and has_name(message.pod, namespace, name)

    _read_reports(evidence, newest, concerns)
    progress = SearchProgress()
    for event in newest("pod-lifecycle", progress):
        if isinstance(event, PodLifecycle) and has_name(event.pod, namespace, name):
            evidence.lifecycle = event
            break
    evidence.has_no_state = progress.whole and evidence.lifecycle is None
    for decision in newest("placement-decisions"):
        if has_name(decision.pod, namespace, name):
            evidence.placement = decision
            break
    node = evidence.find_node(namespace, name)
    if node is not None and node not in evidence.metrics:
        _read_metric(evidence, node, newest)
