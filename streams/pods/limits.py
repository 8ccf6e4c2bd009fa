"""Limits of one pod, which bound the time that one record takes.

Kubernetes limits the size of a pod's object (1.5 MiB in etcd), not its parts. Such a pod may name
50,000 labels, and each costs time on every node. The limits below are far beyond those of real pods,
and keep the worst record within a quarter of a second on 5,000 nodes (`make bench
ONLY=worst_record_ms.request_affinity` and its neighbours). A request beyond them is refused by a
decision, a pod that is seen on a node by a dead letter.
"""

from collections.abc import Iterator

from schemas.messages.pods import Container, Pod

#: Labels in a pod's node selector and required node affinity: half of the number of label columns,
#: so that two such pods in turn do not build all columns again.
LABELS_PER_POD_MAX = 64
#: Expressions of its required node affinity, in all terms: each is evaluated on all nodes.
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
    """Return which limit a pod exceeds, with the number found and the number allowed; None: none."""
    for what, found, allowed in _sizes(pod):
        if found > allowed:
            return f"the pod has {found} {what}; allowed are at most {allowed}"
    return None


def _sizes(pod: Pod) -> Iterator[tuple[str, int, int]]:
    containers = (*pod.containers, *pod.init_containers)
    if pod.required_node_affinity or pod.node_selector:
        expressions = [
            each
            for term in pod.required_node_affinity or ()
            for each in (*term.match_expressions, *term.match_fields)
        ]
        labels = {*pod.node_selector, *(each.key for each in expressions)}
        yield "labels in node selector and node affinity", len(labels), LABELS_PER_POD_MAX
        yield "expressions in its node affinity", len(expressions), EXPRESSIONS_PER_POD_MAX
        values = sum(len(each.values) for each in expressions)
        yield "values in its node affinity", values, VALUES_PER_POD_MAX
    amounts = [len(each.requests) + len(each.limits) for each in containers]
    yield "requests and limits in all containers", sum(amounts), AMOUNTS_PER_POD_MAX
    yield "resources in all containers", len(_resources(pod, containers)), RESOURCES_PER_POD_MAX
    ports = sum(len(each.host_ports) for each in containers)
    yield "host ports in all containers", ports, HOST_PORTS_PER_POD_MAX


def _resources(pod: Pod, containers: tuple[Container, ...]) -> set[str]:
    return (
        set(pod.overhead)
        .union(*(each.requests for each in containers))
        .union(*(each.limits for each in containers))
    )
