"""Pods that want a node: what they ask for, how long they run and what they really use.

What a pod uses depends on the pod and on its age alone, or is a share of what one machine's base
load is (`Carried`), never on its node, so the same pods can be put elsewhere and compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sin, tau

from schemas.messages.pods import Container, Pod

MIB = 1024 * 1024
GIB = 1024 * MIB

#: Koordinator's resources for pods that live on what others have requested and do not use.
BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
PRIORITY_CLASS_LABEL, QOS_CLASS_LABEL = "koordinator.sh/priority-class", "koordinator.sh/qosClass"
PROD, BATCH = "koord-prod", "koord-batch"

#: CPU usage goes up and down in two waves: share of its mean, and length.
_WAVES = ((0.12, 11 * 60_000), (0.08, 47 * 60_000))
#: A pod has its memory after this time; at its start it has half of it.
_MEMORY_RAMP_MS = 5 * 60_000

#: Name of the scheduler that the pods ask for a node.
SCHEDULER = "loadstream"
#: Life of pods that run from before the beginning to the end: longer than any run.
FOREVER_MS = 10 * 365 * 86_400_000


@dataclass(frozen=True, slots=True)
class Carried:
    """A share of a machine's base load, which goes with its pod wherever that runs."""

    machine: str
    """The machine whose readings it is a share of."""
    cpu: float
    memory: float

    def usage(self, base: Mapping[str, int]) -> dict[str, int]:
        """What it is of a base load."""
        shares = {"cpu": self.cpu, "memory": self.memory}
        return {name: int(amount * shares[name]) for name, amount in base.items()}


@dataclass(frozen=True, slots=True)
class PodPlan:
    """A pod, and how long and how heavily it will run."""

    pod: Pod
    """The pod as it asks for a node."""
    at_ms: int
    """When it asks, in ms since 1970."""
    life_ms: int
    """How long it runs, from its start."""
    requests: Mapping[str, int]
    """What it requests: cpu in millicores, the rest in base units."""
    cpu_millicores: float
    """Mean CPU usage."""
    memory_bytes: float
    """Memory usage once it has it."""
    phase: float
    """Where its waves begin, from 0 to 1."""
    job: bool
    """It runs to its end; otherwise it is deleted while it runs."""
    carried: Carried | None = None
    """What it uses, if that is a share of a machine's base load."""

    @property
    def priority_class(self) -> str:
        """Koordinator's class of the pod."""
        return self.pod.labels.get(PRIORITY_CLASS_LABEL, PROD)

    def usage(self, age_ms: int) -> dict[str, int]:
        """What the pod uses `age_ms` after its start: cpu in millicores, memory in bytes.

        Not what it carries.
        """
        wave = sum(size * sin(tau * (self.phase + age_ms / length)) for size, length in _WAVES)
        memory = self.memory_bytes * min(1.0, 0.5 + 0.5 * age_ms / _MEMORY_RAMP_MS)
        return {"cpu": round(self.cpu_millicores * (1.0 + wave)), "memory": round(memory)}


def requests_of(millicores: int, memory_bytes: int, *, batch: bool) -> dict[str, int]:
    """Requests as amounts, of ordinary resources or of Koordinator's batch resources."""
    if batch:
        return {BATCH_CPU: millicores, BATCH_MEMORY: memory_bytes}
    return {"cpu": millicores, "memory": memory_bytes}


def container_of(requests: Mapping[str, int], *, limited: bool) -> Container:
    """A container with these requests, and the same limits if it is limited."""
    texts = {
        name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in requests.items()
    }
    return Container(requests=texts, limits=texts if limited else {})
