"""Reads the newest records of a cluster from the end of its partitions.

Rounds are read back for an hour before the newest round, or as long as requested, and of every topic
a limited number of records.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages, SearchProgress
from connectors.policies.entries import newest_entry
from connectors.queries.presence import last_tick_ms, seek_cluster
from connectors.queries.whynot.evidence import Evidence, is_about
from connectors.units import time_text
from schemas.base.capacity import find_impossible
from schemas.base.quantities import parse_amounts
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodLifecycle
from schemas.messages.rounds import RebalanceRound

#: Most records of one topic that are read.
RECORDS_MAX = 20_000
#: Most rounds and most reports of each kind that are kept.
ROUNDS_MAX, REPORTS_MAX = 1_000, 20


@dataclass(frozen=True, slots=True)
class Question:
    cluster: str
    node: str | None = None
    pod: tuple[str, str] | None = None
    """Namespace and name."""
    back_ms: int = 3_600_000
    """How long before the newest round rounds are read."""


def read_evidence(connection: Connection, question: Question, now_ms: int) -> Evidence:
    """Return the records for an answer; `now_ms` is the time on this machine. Raises BrokerUnavailable."""

    def newest(topic: str, looked: SearchProgress | None = None, **how: bool) -> Iterator[Any]:
        past = PastMessages(connection, topic, question.cluster, RECORDS_MAX)
        return past.newest(looked or SearchProgress(), **how)

    evidence = Evidence(question.cluster, now_ms)
    _rounds(evidence, question, newest)
    evidence.tick_ms = last_tick_ms(connection, question.cluster)
    # A policy of a mistyped cluster name causes rounds without nodes.
    if not evidence.rounds or not any(
        sum(pool.nodes.values()) for pool in evidence.rounds[0].pools
    ):
        what = f"Cluster {question.cluster}"
        evidence.unseen = seek_cluster(connection, question.cluster).warning(what)
    entry = newest_entry(connection, question.cluster)
    if entry is not None:
        policy = entry.record
        evidence.paused = policy.paused
        reason = f" ({policy.reason})" if policy.reason else ""
        _read_rules(evidence, policy.document)
        evidence.policy = f"that of {time_text(policy.applied_at_ms)}{reason}"
    if question.node is not None:
        _about_node(evidence, question.node, newest)
    if question.pod is not None:
        _about_pod(evidence, *question.pod, newest)
    return evidence


def _read_rules(evidence: Evidence, document: str) -> None:
    """Read the requirements on a metric; those of the default policy if the document has errors."""
    from schemas.policy import PolicyError, read_policy

    with suppress(PolicyError):  # no worker has read it yet
        read = read_policy(document)
        evidence.refuses_metrics = read.compat == "loadstream"
        rules = read.rebalance
        evidence.metric_max_age_ms = 1_000 * rules.node_metric_expiration_seconds
        evidence.min_samples = rules.min_samples or 0
        evidence.included = read.descheduling.node_selector


_Newest = Callable[..., Iterator[Any]]


def _rounds(evidence: Evidence, question: Question, newest: _Newest) -> None:
    looked = SearchProgress()
    rounds: dict[str, RebalanceRound] = {}
    others: dict[str, None] = {}
    since_ms = 0
    reached = False
    for each in newest("status", looked, any_cluster=True):
        if not isinstance(each, RebalanceRound):
            continue
        if each.cluster != question.cluster:
            others[each.cluster] = None
            continue
        # After a crash a worker publishes the outputs of its last batch again.
        rounds.setdefault(each.round_id, each)
        since_ms = since_ms or each.decided_at_ms - question.back_ms
        reached = each.decided_at_ms < since_ms
        if reached or len(rounds) == ROUNDS_MAX:
            break
    evidence.rounds = tuple(each for each in rounds.values() if each.decided_at_ms >= since_ms)
    evidence.cut_off = bool(rounds) and not reached and not looked.whole
    evidence.records, evidence.whole = looked.records, looked.whole
    evidence.others = tuple(sorted(others))


def _about_node(evidence: Evidence, node: str, newest: _Newest) -> None:
    looked = SearchProgress()
    for state in newest("node-state", looked):
        if getattr(state, "node", None) == node:
            evidence.nodes[node] = state
            break
    evidence.stateless = looked.whole and node not in evidence.nodes
    _read_metric(evidence, node, newest)
    drains: list[DrainStatus] = []
    migrations: list[MigrationStatus] = []
    for status in newest("status"):
        # A drain is reported when it begins, before all migrations of its pods.
        if isinstance(status, DrainStatus):
            drains += [status] if status.node == node and not drains else []
        elif isinstance(status, MigrationStatus) and status.source_node == node:
            migrations += [status] if len(migrations) < REPORTS_MAX else []
        if drains and len(migrations) == REPORTS_MAX:
            break
    evidence.drains, evidence.migrations = tuple(drains), tuple(migrations)
    evidence.moves = _moves(newest, lambda move: bool(move.source_node == node))


def _read_metric(evidence: Evidence, node: str, newest: _Newest) -> None:
    """Read the newest metric that the cluster accepted, and why it refused a newer one."""
    state = evidence.nodes.get(node)
    for metric in newest("node-metrics"):
        if metric.node != node:
            continue
        why = _find_refusal(metric, state) if state and evidence.refuses_metrics else None
        if why is None:
            evidence.metrics[node] = metric
            return
        evidence.refused = evidence.refused or why


def _find_refusal(metric: NodeMetric, state: NodeState) -> str | None:
    created_ms, updated_ms = state.created_at_ms, metric.updated_at_ms
    if created_ms is not None and updated_ms is not None and updated_ms < created_ms:
        return "it belongs to an earlier node of this name"
    return find_impossible(metric.usage or {}, parse_amounts(state.capacity))


def _about_pod(evidence: Evidence, namespace: str, name: str, newest: _Newest) -> None:
    for metric in newest("node-metrics"):
        evidence.metrics.setdefault(metric.node, metric)
        if evidence.node_of(namespace, name) is not None:
            break
    migrations = []
    for status in newest("status"):
        if isinstance(status, MigrationStatus) and is_about(status.pod, namespace, name):
            migrations.append(status)
            if len(migrations) == REPORTS_MAX:
                break
    evidence.migrations = tuple(migrations)
    evidence.moves = _moves(newest, lambda move: is_about(move.pod, namespace, name))
    looked = SearchProgress()
    for event in newest("pod-lifecycle", looked):
        if isinstance(event, PodLifecycle) and is_about(event.pod, namespace, name):
            evidence.lifecycle = event
            break
    evidence.stateless = looked.whole and evidence.lifecycle is None
    for decision in newest("placement-decisions"):
        if is_about(decision.pod, namespace, name):
            evidence.placement = decision
            break
    node = evidence.node_of(namespace, name)
    if node is not None and node not in evidence.metrics:
        _read_metric(evidence, node, newest)


def _moves(newest: _Newest, wanted: Callable[[MoveOutcome], bool]) -> tuple[MoveOutcome, ...]:
    moves = []
    for move in newest("status"):
        if isinstance(move, MoveOutcome) and wanted(move):
            moves.append(move)
            if len(moves) == REPORTS_MAX:
                break
    return tuple(moves)
