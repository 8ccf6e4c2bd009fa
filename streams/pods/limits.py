"""Limits of one pod, which bound the time that one record takes.

Kubernetes limits the size of a pod (1.5 MiB in etcd), but not the number of its parts. A pod of this size may
name 50,000 labels, and each of them costs time on every node. Real pods stay far below the limits of this
module. With these limits, the slowest record takes less than 250 ms on 5,000 nodes (`make bench
ONLY=worst_record_ms.request_affinity`). A request that exceeds a limit is refused by a decision, and a
running pod becomes a dead letter.
"""

from collections.abc import Iterator

from schemas.messages.pods import Container, Pod

#: Labels in node selector and required node affinity: half of the number of label columns, so that two
#: such pods do not displace each other's columns.
LABELS_PER_POD_MAX = 64
#: Expressions in all terms of the required node affinity; each is evaluated on all nodes.
EXPRESSIONS_PER_POD_MAX = 512
#: Values of those expressions.
VALUES_PER_POD_MAX = 4_096
#: Resources in all containers: as many as one list may name.
RESOURCES_PER_POD_MAX = 64
#: Requests and limits in all containers: 64 containers that name every resource twice.
AMOUNTS_PER_POD_MAX = 8_192
#: Host ports in all containers.
HOST_PORTS_PER_POD_MAX = 1_024


def find_exceeded_limit(pod: Pod) -> str | None:
    """Return which limit a pod exceeds, with both numbers; None if it exceeds none."""
    for subject, count, allowed in _sizes(pod):
        if count > allowed:
            return f"the pod has {count} {subject}; allowed are at most {allowed}"
    return None


def _sizes(pod: Pod) -> Iterator[tuple[str, int, int]]:
    containers = (*pod.containers, *pod.init_containers)
    if pod.required_node_affinity or pod.node_selector:
        expressions = [
            part
            for term in pod.required_node_affinity or ()
            for part in (*term.match_expressions, *term.match_fields)
        ]
        labels = {*pod.node_selector, *(part.key for part in expressions)}
        yield "labels in node selector and node affinity", len(labels), LABELS_PER_POD_MAX
        yield "expressions in its node affinity", len(expressions), EXPRESSIONS_PER_POD_MAX
        values = sum(len(part.values) for part in expressions)
        yield "values in its node affinity", values, VALUES_PER_POD_MAX
    amounts = [len(part.requests) + len(part.limits) for part in containers]
    yield "requests and limits in all containers", sum(amounts), AMOUNTS_PER_POD_MAX
    yield "resources in all containers", len(_resources(pod, containers)), RESOURCES_PER_POD_MAX
    ports = sum(len(part.host_ports) for part in containers)
    yield "host ports in all containers", ports, HOST_PORTS_PER_POD_MAX


def _resources(pod: Pod, containers: tuple[Container, ...]) -> set[str]:
    return (
        set(pod.overhead)
        .union(*(container.requests for container in containers))
        .union(*(container.limits for container in containers))
    )
