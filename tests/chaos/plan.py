"""The plan of one chaos run, drawn from a seed: workers, faults and load.

A plan is endless and pure: step n of a seed is always the same, however long the run takes, and so is
the outcome of a pod's binding. Only the times differ between runs.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Literal, get_args

import numpy as np

from schemas.messages.migrations import Mode
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Container, Pod
from schemas.messages.usage import NodeUsage
from schemas.topics.partitions import partition_for
from tests.chaos import services
from tests.chaos.hostile import Hostile, foreign_ticks, hostile
from tests.chaos.services import Action, UserRequest, Way

NODES_PER_CLUSTER = 6
ALLOCATABLE = {"cpu": "16", "memory": "64Gi", "pods": "110"}
#: Interval between two steps of the load, in seconds.
STEP_S = 0.05
#: Requests of a step over all clusters: with lives of about 2.5 s half of the room is taken,
#: and all of it after an outage.
REQUESTS_PER_STEP = 5
#: Usage samples of a step. Nodes follow each other in a circle; with each sample the clock of its node goes on by this
#: interval, so that some minutes of samples' time, and some reports, go by in a second.
SAMPLES_PER_STEP = 4
SAMPLE_INTERVAL_MS = 15_000
#: Age of the first sample. No sample may come from the future.
SAMPLES_BEGIN_MS = 12 * 3_600_000
#: Seconds for which a node stays hot, before the next node becomes hot.
HOT_S = 6.0
#: Steps between two requests of users. A drained node stays drained for two
#: of these intervals.
_REQUEST_STEPS = 20
#: Bindings and commands are dropped only in the first steps, so that a run ends soon after its load.
SILENT_STEPS = 120
RESERVATION_S = 12

#: Placement is limited by requests: by measured load alone a node is never full.
_BY_ROOM = f"""
reservationSeconds: {RESERVATION_S}
maxBackoffSeconds: 2
plugins:
  filter: [NodeUnschedulable, NodeResourcesFit]
"""
#: Placement is also limited by measured load.
_BY_LOAD = f"""
reservationSeconds: {RESERVATION_S}
maxBackoffSeconds: 2
"""
_SIZES = (("500m", "1Gi"), ("1", "2Gi"), ("2", "4Gi"))

Ending = Literal["kill -9", "kill -9 twice", "SIGTERM", "stall", "broker", "disk full"]
"""kill -9 twice: the second one while the worker starts again. stall: a worker stands still until others
have its partitions, and then goes on as if it had them. disk full: a broker can write no more, gives up, and
comes back to a disk that has room."""

Change = Literal["output gone", "dead letters gone", "foreign records", "clock ahead"]
"""What is done to topics and clock under running workers; see `surroundings`."""
CHANGES: frozenset[str] = frozenset(get_args(Change))


@dataclass(frozen=True)
class Scenario:
    """The workers, and how often each fault happens."""

    name: str
    brokers: int
    workers: int
    endings: tuple[Ending | Change, ...]
    """What happens, in an order that the seed draws."""
    calm_s: float = 0.0
    """So much longer the load goes on before each ending: pods must be evicted although outages are long."""
    standby_replicas: int = 0
    """How many workers keep a copy of a partition's rows beside its owner."""


SCENARIOS = (
    Scenario("one-worker", 1, 1, ("foreign records", "kill -9 twice", "SIGTERM", "clock ahead")),
    Scenario("two-workers", 1, 2, ("kill -9", "kill -9", "SIGTERM")),
    Scenario("stalled-worker", 1, 2, ("stall", "kill -9")),
    Scenario("three-brokers", 3, 1, ("broker", "broker", "kill -9")),
    Scenario("one-broker", 1, 1, ("disk full", "broker"), calm_s=5.0),
    Scenario("standbys", 1, 2, ("kill -9", "stall"), standby_replicas=1),
    Scenario("topics", 1, 1, ("output gone", "dead letters gone")),
)


@dataclass(frozen=True)
class Fault:
    ending: Ending | Change
    target: int
    """Which worker or broker, from 0."""
    after_s: float
    """Since decisions came again after the fault before."""
    into_batch_s: float
    """Since a batch was seen in flight."""
    again_after_s: float
    """Between the start of a worker and its second kill: it joins its group, recovers, or runs already."""
    away_s: float
    """How long a worker stays away, or is watched after it stood still."""


class Fate(Enum):
    """The outcome of the binding of a pod, or of its eviction."""

    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    SILENT = "silent"


@dataclass(frozen=True)
class Sampled:
    """One usage sample."""

    cluster: str
    node: int
    number: int
    """How many of this node came before."""
    times: int
    """How often it is sent; 0: something that cannot be read is sent in its place."""


@dataclass(frozen=True)
class Step:
    """The messages of one step of the load."""

    requests: tuple[tuple[str, Pod], ...] = ()
    """Cluster and pod."""
    spoilt: tuple[Hostile, ...] = ()
    """Records to be refused."""
    samples: tuple[Sampled, ...] = ()
    """What nodes of sampled clusters used."""
    request: UserRequest | None = None
    """What a user asks for."""
    policy_of: str | None = None
    """Cluster whose policy is sent again."""
    paused: bool = False
    """With `policy_of`: whether that pauses it."""
    cordon: tuple[str, int, bool] | None = None
    """Cluster, node and whether it is unschedulable from now on."""


class Plan:
    """A run that can be repeated from its seed."""

    def __init__(self, seed: int, scenario: Scenario, partitions: int) -> None:
        self.seed = seed
        self.scenario = scenario
        self.partitions = partitions
        self.clusters = _clusters(partitions)
        self.sampled = frozenset(self.clusters[1::2])
        """Clusters whose metrics are made of usage samples, by the aggregate stage; not the one that is
        judged by load, since samples' time goes faster than the clock."""
        self.moving: dict[str, Way] = dict(
            zip(self.clusters[::2], ("observe", "ReservationFirst", "EvictDirectly"), strict=True)
        )
        """Clusters with services whose pods leave hot nodes, and how; all that are not sampled."""

    def faults(self) -> list[Fault]:
        """Return the faults in order."""
        random = np.random.default_rng([self.seed, 1])
        faults = []
        for index in random.permutation(len(self.scenario.endings)):
            ending = self.scenario.endings[index]
            of_broker = ending in ("broker", "disk full")
            targets = self.scenario.brokers if of_broker else self.scenario.workers
            faults.append(
                Fault(
                    ending,
                    target=int(random.integers(targets)),
                    after_s=self.scenario.calm_s + float(random.uniform(0.5, 3.0)),
                    into_batch_s=float(random.uniform(0.0, 0.003)),
                    again_after_s=float(random.uniform(1.0, 8.0)),
                    away_s=float(random.uniform(0.0, 2.0)),
                )
            )
        return faults

    def steps(self) -> Iterator[Step]:
        """Yield the load, without end."""
        random = np.random.default_rng([self.seed, 2])
        paused: str | None = None
        count = 0
        while True:
            requests = tuple(
                (cluster, _pod(f"{cluster}-{count}-{number}", int(random.integers(len(_SIZES)))))
                for number in range(REQUESTS_PER_STEP)
                for cluster in [self._some_cluster(random)]
            )
            spoilt = tuple(self._spoilt(random)) if random.random() < 0.1 else ()
            cordon = None
            if random.random() < 0.05:
                node, closed = int(random.integers(3)), bool(random.random() < 0.5)
                cordon = (self._some_cluster(random), node, closed)
            policy_of, pause = None, False
            if paused is not None and count % 20 == 0:
                policy_of, paused = paused, None
            elif count % 100 == 50:
                policy_of, pause = self._some_cluster(random), True
                paused = policy_of
            samples = tuple(self._samples(random, count))
            yield Step(
                requests,
                spoilt,
                samples,
                request=self._request(count),
                policy_of=policy_of,
                paused=pause,
                cordon=cordon,
            )
            count += 1

    def hot(self, after_s: float) -> int:
        """Return the node of a cluster that is hot at this time since the load began."""
        return int(after_s / HOT_S) % NODES_PER_CLUSTER

    def _request(self, count: int) -> UserRequest | None:
        """Every sixth request drains a node, and the second request after it undrains the node."""
        number, rest = divmod(count, _REQUEST_STEPS)
        if rest != _REQUEST_STEPS - 1:
            return None
        if number % 6 in (3, 5):
            action: Action
            action, drawn = "drain" if number % 6 == 3 else "undrain", f"drain/{number // 6}"
        else:
            action, drawn = "abort" if number % 6 == 1 else "migrate", f"wish/{number}"
        cluster = list(self.moving)[int(len(self.moving) * self.drawn(f"{drawn}/cluster"))]
        direct = action == "migrate" and self.drawn(f"{drawn}/mode") < 0.5
        mode: Mode | None = "EvictDirectly" if direct else None
        return UserRequest(cluster, action, f"request-{count}", self.drawn(drawn), mode)

    def _samples(self, random: np.random.Generator, count: int) -> Iterator[Sampled]:
        clusters = sorted(self.sampled)
        nodes = len(clusters) * NODES_PER_CLUSTER
        for sample in range(count * SAMPLES_PER_STEP, (count + 1) * SAMPLES_PER_STEP):
            number, index = divmod(sample, nodes)
            cluster, node = clusters[index // NODES_PER_CLUSTER], index % NODES_PER_CLUSTER
            drawn = random.random()
            yield Sampled(cluster, node, number, 0 if drawn < 0.02 else 2 if drawn < 0.05 else 1)

    def sample(self, sampled: Sampled, now_ms: int) -> NodeUsage:
        """Return the message; `now_ms` is the start of the run."""
        prefix = f"{sampled.cluster}/{sampled.node}/{sampled.number}"
        return NodeUsage(
            cluster=sampled.cluster,
            node=f"{sampled.cluster}-n{sampled.node}",
            sampled_at_ms=now_ms - SAMPLES_BEGIN_MS + sampled.number * SAMPLE_INTERVAL_MS,
            usage={
                "cpu": int(16_000 * self.drawn(f"{prefix}/cpu")),
                "memory": int(2**36 * self.drawn(f"{prefix}/memory")),
            },
        )

    def fate(self, uid: str, attempt: int, step: int) -> Fate:
        """Return the outcome of the binding of a pod that was requested in this step."""
        drawn = self.drawn(f"{uid}/{attempt}")
        if drawn < 0.06 and step < SILENT_STEPS:
            return Fate.SILENT
        return Fate.FAILED if drawn > 0.92 else Fate.DONE

    def eviction(self, command_id: str, step: int) -> Fate:
        """Return the outcome of an eviction command that comes in this step."""
        drawn = self.drawn(command_id)
        if drawn < 0.15 and step < SILENT_STEPS:
            return Fate.SILENT
        return Fate.REFUSED if drawn > 0.9 else Fate.FAILED if drawn > 0.8 else Fate.DONE

    def life_s(self, uid: str) -> float:
        """Return how long a pod runs."""
        return 1.0 + 3.0 * self.drawn(f"{uid}/life")

    def policy(self, cluster: str) -> str:
        """Return the policy document of a cluster."""
        document = _BY_LOAD if cluster == self.clusters[0] else _BY_ROOM
        way = self.moving.get(cluster)
        return document if way is None else document + services.policy(way)

    def node(self, cluster: str, number: int, *, closed: bool = False) -> NodeState:
        """Return the state of a node."""
        return NodeState(
            cluster=cluster,
            node=f"{cluster}-n{number}",
            event="added",
            allocatable=ALLOCATABLE,
            unschedulable=closed,
        )

    def drawn(self, purpose: str) -> float:
        """Return a number from 0 to 1 that depends only on the seed and the purpose."""
        # Checksums of neighbouring attempts differ too little for independent outcomes.
        digest = hashlib.blake2b(f"{self.seed}/{purpose}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) / 2**64

    def _some_cluster(self, random: np.random.Generator) -> str:
        return self.clusters[int(random.integers(len(self.clusters)))]

    def _spoilt(self, random: np.random.Generator) -> Iterator[Hostile]:
        cluster = self._some_cluster(random)
        state = self.node(cluster, 0).model_dump_json().encode()
        yield from hostile(random, cluster, state, self.partitions)
        if random.random() < 0.3:
            yield from foreign_ticks(random, self.partitions)


def _clusters(partitions: int) -> list[str]:
    """Return one cluster per partition, and two more that share partitions."""
    by_partition: dict[int, str] = {}
    number = 0
    while len(by_partition) < partitions:
        name = f"c{number}"
        by_partition.setdefault(partition_for(name.encode(), partitions), name)
        number += 1
    return [*by_partition.values(), f"c{number}", f"c{number + 1}"]


def _pod(name: str, size: int) -> Pod:
    cpu, memory = _SIZES[size]
    return Pod(
        namespace="default",
        name=name,
        uid=f"u-{name}",
        containers=(Container(requests={"cpu": cpu, "memory": memory}),),
    )
