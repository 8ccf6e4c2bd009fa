"""A balancer over an inventory, without a stage: what a round sees is given directly, and its outcome is read.

cpu is in percent of a node of ten cores.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from schemas.base.message import Message
from schemas.messages.metrics import HostApplicationMetric, NodeMetric, PodMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod
from schemas.policy import Policy, read_policy
from schemas.storage.tables import kind_of_key, parse_row_key, row_key
from streams.inventory.inventory import Inventory
from streams.inventory.pod_events import apply_lifecycle
from streams.moves.history import Moves
from streams.placement.placer import Exclusions
from streams.rebalance.balancer import Balancer
from streams.rebalance.candidates import Candidate, Gate, RoundRules
from streams.rebalance.outcome import HotNodeOutcome, PoolOutcome, RoundOutcome
from streams.rebalance.risk.nodes import RiskNodes
from streams.stage.packing import apply_changes
from streams.stage.records import RowChange, read_row
from tests.streams.builders import (
    BY_RISK,
    BY_THRESHOLDS,
    CLUSTER,
    START_MS,
    container,
    controlled_by,
    lifecycle,
    node,
)

#: Millicores of one percent of a node.
PERCENT = 100
INTERVAL_MS = 60_000


def by_thresholds(document: str) -> str:
    """The policy where pods move by thresholds alone, unless it says by what."""
    named = "plugins:" in document or "compat: koordinator" in document
    return document if named else f"{document}\nplugins: {{balance: [LowNodeLoad]}}\n"


class Rounds:
    """Nodes, pods and what they use, as given; a round sees exactly that."""

    def __init__(self, document: str = BY_THRESHOLDS, *, now_ms: int = START_MS) -> None:
        self.policy: Policy = read_policy(by_thresholds(document))
        self.now_ms = now_ms
        self.inventory = Inventory(self.policy)
        self.moves = Moves(CLUSTER, self.policy)
        self.balancer = Balancer(CLUSTER, self.inventory, Exclusions(self.moves, self.inventory))
        self.rows: dict[str, bytes] = {}
        self.used: dict[str, dict[str, dict[str, int]]] = {}
        """Usage by node and pod."""
        self.system: dict[str, dict[str, int]] = {}
        self.hosts: dict[str, dict[str, int]] = {}
        self.stale: set[str] = set()
        self.outcome = RoundOutcome(0)

    # --- what there is --------------------------------------------------------------------------

    def node(self, name: str, system: int = 0, **fields: Any) -> None:
        """A node of ten cores whose system part uses a share in percent."""
        state: NodeState = node(name, **{"cpu": "10", **fields})
        self.inventory.apply_node(state)
        self.used.setdefault(name, {})
        self.system[name] = {"cpu": system * PERCENT, "memory": 0}

    def pod(self, uid: str, name: str, cpu: int | None = 10, **fields: Any) -> None:
        """A pod of a ReplicaSet on a node that uses a share in percent; None: it is not measured."""
        usage = fields.pop("usage", None)
        if usage is None and cpu is not None:
            usage = {"cpu": cpu * PERCENT, "memory": 0}
        made = Pod(
            **{
                "namespace": "default",
                "name": uid,
                "uid": uid,
                "phase": "Running",
                "owners": controlled_by("web"),
                "containers": (container({"cpu": "100m"}),),
                "created_at_ms": START_MS,
                # Estimates are over: what is measured is what there is.
                "scheduled_at_ms": START_MS - 86_400_000,
                **fields,
            }
        )
        apply_lifecycle(self.inventory, lifecycle("seen", made, name))
        if usage is not None:
            self.used[name][uid] = usage

    def gone(self, uid: str, *, reported: bool = False) -> None:
        """A pod is no more; its node may still report it."""
        self.inventory.release(uid)
        if not reported:
            for pods in self.used.values():
                pods.pop(uid, None)

    def avoid(self, names: Iterable[str], owner: str = "web") -> None:
        """Pods of an owner have just left nodes that were hot."""
        for name in names:
            self.moves.record_departure(owner, name, self.now_ms, "hot")

    # --- rounds ---------------------------------------------------------------------------------

    def measure(self) -> None:
        """Every node that is not stale sends a metric."""
        for name, pods in self.used.items():
            if name in self.stale:
                continue
            self.inventory.apply_metric(
                NodeMetric(
                    cluster=CLUSTER,
                    node=name,
                    updated_at_ms=self.now_ms,
                    report_interval_ms=60_000,
                    usage={"cpu": 1},
                    system_usage=self.system[name],
                    pods=tuple(
                        PodMetric(namespace="default", name=uid, usage=usage)
                        for uid, usage in pods.items()
                    ),
                    host_applications=tuple(
                        HostApplicationMetric(name=host, usage={"cpu": cpu * PERCENT})
                        for host, cpu in self.hosts.get(name, {}).items()
                    ),
                )
            )

    def round(self, **asked: Any) -> list[str]:
        """An interval passes and a round is made; answers "pod node->target" of what leaves."""
        left = self.unwritten_round(**asked)
        self.write()
        return left

    def unwritten_round(self, **asked: Any) -> list[str]:
        """A round whose batch is not over: its rows are not written yet."""
        self.now_ms += INTERVAL_MS
        self.inventory.advance(self.now_ms)
        self.measure()
        self.outcome = self.balancer.round(self.now_ms, self._rules(**asked))
        return [f"{move.held.pod.uid} {move.node}->{move.target}" for move in self.outcome.moves]

    def _rules(
        self, gate: Any = None, leaving: Collection[str] = (), **functions: Any
    ) -> RoundRules:
        """Rules that a test gives in part as functions; a gate may answer with a text alone."""

        def propose(candidate: Candidate) -> Gate | None:
            stopped = None if gate is None else gate(candidate)
            return Gate("Asked", stopped) if isinstance(stopped, str) else stopped

        return RoundRules(
            leaving,
            functions.get("explain_protection", lambda _: None),
            functions.get(
                "find_refusing_nodes", lambda _: np.zeros(len(self.inventory.nodes), np.bool_)
            ),
            functions.get("hold_back", lambda *_: None),
            propose,
        )

    def rounds(self, count: int) -> list[bool]:
        """A number of rounds; whether anything left in each."""
        return [bool(self.round()) for _ in range(count)]

    def names(self, kind: str) -> list[str]:
        """Names of rows of a kind, in their order."""
        return [key.name for key in map(parse_row_key, sorted(self.rows)) if key.kind == kind]

    def write(self) -> None:
        """Write the rows that have changed."""
        for table in self.balancer.tracked_rows:
            for name, row in table.changed_rows():
                apply_changes(self.rows, [RowChange(row_key(0, CLUSTER, table.kind, name), row)])

    def restart(self) -> None:
        """The balancer is made anew from its rows; nodes and pods are as they were."""
        self.balancer = Balancer(CLUSTER, self.inventory, Exclusions(self.moves, self.inventory))
        self.inventory.touched.update(dict.fromkeys(self.inventory.nodes))
        for table in self.balancer.tracked_rows:
            table.restore(self.read(table.kind))

    def read(self, kind: str) -> Iterator[Message]:
        """Rows of a kind, in the order of their keys."""
        for key, row in sorted(self.rows.items()):
            if kind_of_key(key) == kind:
                yield read_row(key, row)

    # --- what came of it ------------------------------------------------------------------------

    @property
    def pool(self) -> PoolOutcome:
        """The only pool of the last round."""
        (pool,) = self.outcome.pools
        return pool

    def hot(self, name: str) -> HotNodeOutcome:
        """A hot node of the last round."""
        return next(hot for pool in self.outcome.pools for hot in pool.hot if hot.name == name)

    def gates(self, name: str) -> dict[str, str]:
        """The gate of each pod of a hot node that was looked at; empty: it leaves."""
        return {verdict.pod.uid: verdict.gate for verdict in self.hot(name).pods}


# --- rounds of tests ---------------------------------------------------------------------------


def targets(world: Rounds, names: Iterable[str], system: int = 10) -> None:
    """Calm nodes."""
    for name in names:
        world.node(name, system)


def hot_world(document: str = BY_THRESHOLDS) -> Rounds:
    """One hot node with a pod that just covers the excess, and one target."""
    world = Rounds(document)
    world.node("hot", system=60)
    world.pod("a", "hot", 15)
    targets(world, ["calm"])
    return world


def counted_world(text: str) -> Rounds:
    """A node whose one pod covers any excess, and a target; rounds every ten seconds."""
    made = Rounds(text)
    made.node("hot", system=70)
    made.pod("a", "hot", 10)
    made.node("calm", system=0)
    return made


def settled(world: Rounds, rounds: int = 4) -> Rounds:
    """Pods are measured for some windows, so that their own usage counts."""
    for _ in range(5 * rounds):
        world.now_ms += INTERVAL_MS
        world.inventory.advance(world.now_ms)
        world.measure()
    return world


def risky(document: str = BY_RISK, **fields: Any) -> Rounds:
    """A node that is hot by three pods, and two that are calm; `fields` are those of all nodes."""
    world = Rounds(document)
    for name in ("calm-1", "calm-2", "risky"):
        world.node(name, system=5, **fields)
    for uid in ("a", "b", "c"):
        world.pod(uid, "risky", 28, containers=(container({"cpu": "2500m"}),))
    world.pod("d", "calm-1", 20, containers=(container({"cpu": "2500m"}),))
    return settled(world)


def busy(hot: int, pods: int = 3, *, koordinator: bool = False) -> Rounds:
    """Hot nodes whose pods nobody lets go, and room for them elsewhere."""
    world = Rounds(BY_THRESHOLDS + ("compat: koordinator\n" if koordinator else ""))
    for number in range(hot):
        world.node(f"hot-{number:02}", system=90 - 30)
        for place in range(pods):
            world.pod(f"p-{number:02}-{place}", f"hot-{number:02}", 30 // pods)
    for number in range(3):
        world.node(f"calm-{number}", system=10)
    return world


# --- what is done with them --------------------------------------------------------------------


def acting_rounds(made: Rounds, hot: list[bool], interval_ms: int = 10_000) -> list[int]:
    """Numbers of the rounds, from 1, in which something left; `hot` says in which the node is."""
    acted = []
    for number, over in enumerate(hot, 1):
        made.system["hot"] = {"cpu": (70 if over else 45) * PERCENT, "memory": 0}
        made.now_ms += interval_ms - 60_000
        if made.round():
            acted.append(number)
    return acted


def change_policy(made: Rounds, section: str = "rebalance", **fields: object) -> None:
    """Another policy holds, and its rows are written."""
    part = getattr(made.policy, section).model_copy(update=fields)
    made.policy = made.policy.model_copy(update={section: part})
    made.balancer.set_policy(made.policy)
    made.write()


def counter_rows(made: Rounds) -> dict[str, bytes]:
    """Rows of counters, by node."""
    return {
        parse_row_key(key).name: row
        for key, row in made.rows.items()
        if kind_of_key(key) == "hotspot_counters"
    }


def costs(world: Rounds) -> list[float]:
    """What each node costs by the inventory."""
    nodes = [world.inventory.nodes[name] for name in sorted(world.inventory.nodes)]
    found: list[float] = RiskNodes(world.policy.overutilization_risk, nodes).costs.tolist()
    return found


def asked_in(world: Rounds) -> list[str]:
    """The nodes whose pods a round asks the gate about, which lets none leave."""
    asked: list[str] = []

    def refuse(candidate: Candidate) -> str:
        asked.append(candidate.node)
        return "no"

    world.round(gate=refuse)
    return asked
