"""What a policy needs and producers have not sent: labels of namespaces, priority classes.

Until they are there the pods concerned stay, and every round says so; the command that applies the
policy warns at once.
"""

from collections.abc import Iterator
from typing import Any

from connectors.kafka.backwards import Looked, Past
from connectors.kafka.client import Connection
from schemas.namespaces import NamespaceState, PriorityClassState
from schemas.policy import Policy
from schemas.policy.migration import BUILT_IN_CLASSES

#: Records of `pod-lifecycle` that are looked at, newest first.
RECORDS_MAX = 20_000


def unsent(connection: Connection, cluster: str, policy: Policy) -> Iterator[str]:
    """A warning for each kind of record that the policy needs and the newest records lack.

    Raises BrokerUnavailable.
    """
    selector = policy.evictor.namespace_label_selector
    by_labels = selector is not None and (selector.match_labels or selector.match_expressions)
    classes = _classes(policy)
    if not by_labels and not classes:
        return
    found = Past(connection, "pod-lifecycle", cluster, RECORDS_MAX).newest(Looked())
    named = {_name(message) for message in found}
    if by_labels and "namespace" not in named:
        yield (
            "evictor.namespaceLabelSelector needs labels of namespaces, and no record of kind namespace "
            "on pod-lifecycle names any: no pod is evicted until they are sent"
        )
    for whose, name in classes:
        if f"priority-class {name}" not in named:
            yield (
                f"{whose}.priorityThreshold names class {name}, and no record of kind priority-class on "
                "pod-lifecycle names it: no pod is evicted until it is sent; or give value instead"
            )


def _classes(policy: Policy) -> list[tuple[str, str]]:
    """Sections that name a priority class whose value the cluster must send, and the class."""
    sections = [("evictor", policy.evictor.priority_threshold)]
    if policy.compat == "loadstream":
        sections.append(("migration", policy.migration.priority_threshold))
    return [
        (whose, threshold.name)
        for whose, threshold in sections
        if threshold is not None and threshold.name and threshold.name not in BUILT_IN_CLASSES
    ]


def _name(message: Any) -> str:
    if isinstance(message, NamespaceState) and not message.removed:
        return "namespace"
    if isinstance(message, PriorityClassState) and not message.removed:
        return f"priority-class {message.name}"
    return ""
