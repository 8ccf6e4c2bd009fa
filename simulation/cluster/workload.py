"""The pods of the simulated cluster: a seeded stream of arrivals.

Pods arrive at random (a Poisson process), of kinds that are found together in a co-located cluster:
services that must answer, jobs that take what is left, some that insist on a label, a few that
hardly fit anywhere, and a few that need what is not supported. The rate is such that on average
they use a given number of cores.
"""

from dataclasses import dataclass, field

import numpy as np

from schemas.messages.pods import OwnerReference, Pod
from simulation.cluster.pods import (
    BATCH,
    GIB,
    PRIORITY_CLASS_LABEL,
    PROD,
    QOS_CLASS_LABEL,
    SCHEDULER,
    PodPlan,
    container_of,
    requests_of,
)

HOUR_MS = 3_600_000
#: Workloads that the pods of one kind belong to.
WORKLOADS = 6
#: Shortest life of a pod.
LIFE_MIN_MS = 5 * 60_000

_STREAM = 20


@dataclass(frozen=True, slots=True)
class PodKind:
    """What pods of one kind have in common."""

    name: str
    share: float
    """Share of the arrivals."""
    cores: float
    memory_gib: float
    life_hours: float
    """Mean life."""
    cpu_use: tuple[float, float]
    """Range of the CPU usage, as a share of the request."""
    memory_use: tuple[float, float]
    """The same of memory."""
    batch: bool = False
    """Of Koordinator's class batch: best effort, on batch resources."""
    limited: bool = False
    """Limits equal to the requests."""
    job: bool = False
    node_selector: dict[str, str] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()


#: Chosen: users of services request about twice what they use, jobs use most of what they request.
KINDS = (
    PodKind("web", 0.26, 4, 8, 3.0, (0.25, 0.60), (0.50, 0.90)),
    PodKind("api", 0.16, 8, 16, 4.0, (0.25, 0.60), (0.50, 0.90)),
    PodKind("cache", 0.06, 4, 32, 6.0, (0.20, 0.45), (0.70, 0.95), limited=True),
    PodKind("search", 0.05, 8, 24, 4.0, (0.30, 0.60), (0.60, 0.90), node_selector={"disk": "ssd"}),
    PodKind("etl", 0.28, 4, 8, 0.7, (0.60, 0.95), (0.40, 0.80), batch=True, job=True),
    PodKind("report", 0.13, 16, 32, 1.0, (0.55, 0.95), (0.40, 0.80), batch=True, job=True),
    PodKind("build", 0.04, 2, 4, 0.3, (0.70, 1.00), (0.40, 0.80), job=True),
    PodKind("training", 0.015, 48, 160, 2.0, (0.60, 0.90), (0.60, 0.90), limited=True, job=True),
    PodKind("ledger", 0.005, 4, 16, 4.0, (0.3, 0.5), (0.5, 0.8), unsupported=("zonal volume",)),
)


def make_pods(seed: int, begin_ms: int, end_ms: int, mean_cores: float) -> list[PodPlan]:
    """Pods that arrive from `begin_ms` to `end_ms`, in that order.

    In the long run the pods that live at the same time use `mean_cores` on average.
    """
    random = np.random.default_rng([seed, _STREAM])
    shares = np.array([kind.share for kind in KINDS])
    core_hours = sum(
        kind.share * kind.cores * sum(kind.cpu_use) / 2 * kind.life_hours
        for kind in KINDS
        if not kind.unsupported
    ) / float(shares.sum())
    rate_per_ms = mean_cores / core_hours / HOUR_MS
    plans: list[PodPlan] = []
    at_ms = float(begin_ms)
    while rate_per_ms > 0:
        at_ms += float(random.exponential(1.0 / rate_per_ms))
        if at_ms >= end_ms:
            break
        kind = KINDS[int(random.choice(len(KINDS), p=shares / shares.sum()))]
        plans.append(_plan(kind, len(plans) + 1, int(at_ms), random))
    return plans


def _plan(kind: PodKind, number: int, at_ms: int, random: np.random.Generator) -> PodPlan:
    memory_bytes = int(kind.memory_gib * GIB)
    millicores = int(kind.cores * 1000)
    requests = requests_of(millicores, memory_bytes, batch=kind.batch)
    name = f"{kind.name}-{number:04}"
    owner = f"{kind.name}-{number % WORKLOADS + 1}"
    pod = Pod(
        namespace="demo",
        name=name,
        uid=f"demo-{name}",
        scheduler=SCHEDULER,
        priority=5500 if kind.batch else 9500,
        labels={
            "app": kind.name,
            PRIORITY_CLASS_LABEL: BATCH if kind.batch else PROD,
            QOS_CLASS_LABEL: "BE" if kind.batch else "LS",
        },
        owners=(
            OwnerReference(
                kind="Job" if kind.job else "ReplicaSet",
                name=owner,
                uid=f"demo-{owner}",
                controller=True,
            ),
        ),
        containers=(container_of(requests, limited=kind.limited),),
        node_selector=kind.node_selector,
        unsupported=kind.unsupported,
        created_at_ms=at_ms,
    )
    return PodPlan(
        pod=pod,
        at_ms=at_ms,
        life_ms=LIFE_MIN_MS + int(random.exponential(kind.life_hours * HOUR_MS)),
        requests=requests,
        cpu_millicores=millicores * float(random.uniform(*kind.cpu_use)),
        memory_bytes=memory_bytes * float(random.uniform(*kind.memory_use)),
        phase=float(random.random()),
        job=kind.job,
    )
