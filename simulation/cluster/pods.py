"""A pod of a simulated cluster, with its requests and lifetime."""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.messages.pods import Container, Pod

MIB = 1024 * 1024
GIB = 1024 * MIB

PRIORITY_CLASS_LABEL = "koordinator.sh/priority-class"
PROD = "koord-prod"
#: Scheduler of the pods.
SCHEDULER = "loadstream"


@dataclass(frozen=True, slots=True)
class PodPlan:
    pod: Pod
    """The pod in its state before placement."""
    at_ms: int
    """Time when the pod requests a node, in ms since 1970."""
    life_ms: int
    """Time that the pod runs."""
    requests: Mapping[str, int]
    """CPU in millicores, memory in bytes."""


def make_container(requests: Mapping[str, int]) -> Container:
    """Return a container with these requests and no limits."""
    texts = {
        name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in requests.items()
    }
    return Container(requests=texts)
