"""Policies, pods, workloads and requests of a cluster that moves pods."""

from typing import Any

import yaml

from schemas.messages.evictions import EvictionCommand
from schemas.messages.migrations import MigrationRequest, MigrationRow
from schemas.messages.namespaces import NamespaceState, PriorityClassState
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pod_selectors import PodSelector, SelectorRequirement
from schemas.messages.pods import Pod, PodRef
from schemas.messages.workloads import (
    DisruptionBudget,
    WorkloadState,
)
from tests.streams.cluster.builders import CLUSTER, at, controlled_by, pod

#: No limit that a test does not ask for.
FREE = """
mode: enforce
compat: loadstream
migration:
  maxMigratingPerNode: 0
  skipCheckExpectedReplicas: true
  evictQPS: 1000
  evictBurst: 1000
  objectLimiters: {workload: {duration: 0s}}
  skipEvictionGates: [MaxMigratingPerWorkload, MaxUnavailablePerWorkload]
"""


def policy_text(extra: str = "", **migration: Any) -> str:
    """The policy without limits, with some of migration's arguments as given."""
    document = yaml.safe_load(FREE)
    document["migration"] |= migration
    document |= yaml.safe_load(extra) or {}
    return yaml.safe_dump(document)


def replica(uid: str, owner: str = "web", *, kind: str = "ReplicaSet", **fields: Any) -> Pod:
    """A pod of an owner, ready, placed by a scheduler whose pods may have reservations."""
    return pod(
        uid,
        **{
            "scheduler": "koord-scheduler",
            "phase": "Running",
            "ready": True,
            "labels": {"app": owner},
            "owners": controlled_by(owner, kind=kind),
            **fields,
        },
    )


def workload(uid: str = "web", replicas: int = 3, **fields: Any) -> WorkloadState:
    """An owner and what it wants."""
    return WorkloadState(
        **{
            "cluster": CLUSTER, "uid": uid, "owner_kind": "ReplicaSet", "namespace": "default",
            "name": uid, "replicas": replicas, **fields,
        }
    )  # fmt: skip


def budget(allowed: int, name: str = "web", app: str = "web", **fields: Any) -> DisruptionBudget:
    """A disruption budget over the pods of an app."""
    return DisruptionBudget(
        cluster=CLUSTER, namespace="default", name=name,
        selector=PodSelector(match_labels={"app": app}), disruptions_allowed=allowed,
        current_healthy=3, desired_healthy=2, expected_pods=3, **fields,
    )  # fmt: skip


def namespace(name: str = "default", team: str = "shop", **fields: Any) -> NamespaceState:
    """A namespace of a team."""
    return NamespaceState(cluster=CLUSTER, name=name, labels={"team": team}, **fields)


def priority_class(value: int, name: str = "high", **fields: Any) -> PriorityClassState:
    """A class and what it is worth."""
    return PriorityClassState(cluster=CLUSTER, name=name, value=value, **fields)


def ask(action: Any, *, pod: Pod | None = None, **fields: Any) -> MigrationRequest:
    """A user's request."""
    ref = None if pod is None else PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
    return MigrationRequest(
        request_id=f"request-{action}", cluster=CLUSTER, action=action, pod=ref,
        requested_at_ms=at(0), **fields,
    )  # fmt: skip


def evicted(command: EvictionCommand, result: Any = "done", reason: str = "") -> CommandOutcome:
    """What came of a command."""
    return CommandOutcome(
        command_id=command.command_id,
        cluster=CLUSTER,
        command="evict",
        pod=command.pod,
        node=command.node,
        result=result,
        reason=reason,
        happened_at_ms=command.decided_at_ms,
    )


def migration_row(number: int, node: str, **fields: Any) -> MigrationRow:
    """A migration as the registry holds it."""
    return MigrationRow.model_construct(
        migration_id=f"m-{number}", pod=replica(f"p-{number}"), source_node=node, owner=f"o-{node}",
        phase="Pending", attempts=0, replacement=None, sequence=number, **fields,
    )  # fmt: skip


def expression(key: str, operator: str, *values: str) -> SelectorRequirement:
    """What a selector requires of a label."""
    return SelectorRequirement.model_validate(
        {"key": key, "operator": operator, "values": values}, strict=True
    )
