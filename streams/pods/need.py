"""What a pod says that it needs of a node's resources, in the form in which its class asks for them.

Pods of class batch and mid ask for resources of their own in place of cpu and memory, and pods of
class free for nothing. Source: docs/upstream.md A4.1, A4.2.
"""

from streams.pods.demand import PodDemand
from streams.pods.priority import PriorityClass

#: Expected use of a pod without requests and limits: 250 millicores, 200 MiB; not scaled.
FLAT = {
    "cpu": 250,
    "memory": 200 * 1024 * 1024,
    "kubernetes.io/batch-cpu": 250,
    "kubernetes.io/batch-memory": 200 * 1024 * 1024,
}
#: The resource that a class of pods asks for in place of cpu and memory.
_TRANSLATED: dict[PriorityClass, dict[str, str]] = {
    "batch": {"cpu": "kubernetes.io/batch-cpu", "memory": "kubernetes.io/batch-memory"},
    "mid": {"cpu": "kubernetes.io/mid-cpu", "memory": "kubernetes.io/mid-memory"},
    "free": {},
}


def form_of(resource: str, of_class: PriorityClass) -> str | None:
    """The name under which pods of a class ask for a resource of their node; none: they do not."""
    if of_class == "prod":
        return resource
    return _TRANSLATED[of_class].get(resource)


def nominal(resource: str, demand: PodDemand, of_class: PriorityClass) -> int:
    """What a pod says that it needs of a resource of its node, else the small flat amount that it is
    expected to use."""
    said = asked(resource, demand, of_class)
    return said or FLAT.get(form_of(resource, of_class) or "", 0)


def asked(resource: str, demand: PodDemand, of_class: PriorityClass) -> int:
    """A pod's request of a resource of its node, else its limit; 0: it names neither.

    A pod of a class that is given resources of its own asks for these; else for those of all pods.
    """
    for name in (form_of(resource, of_class) or "", resource):
        amount = demand.requests.get(name, 0) or demand.limits.get(name, 0)
        if amount:
            return amount
    return 0
