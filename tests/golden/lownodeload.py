"""Scenarios of LowNodeLoad: the records that would report them, and the rounds that are made of them.

A scenario's nodes, pods and metrics become messages that are applied to a cluster's inventory, the agent's
own; each Balance call is one round of the same `Balancer`. Pods that the scenario's evictor protects are refused
by the filter, pods whose eviction fails by the gate.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from schemas.messages.metrics import NodeMetric
from schemas.policy import Policy, PolicyError
from schemas.policy.sections.descheduling import DeschedulingLimits
from streams.inventory.inventory import Inventory
from streams.inventory.pod_events import apply_lifecycle
from streams.moves.history import MoveHistory
from streams.placement.placer import Exclusions
from streams.pods.held_pod import HeldPod
from streams.rebalance.balancer import Balancer
from streams.rebalance.candidates import Candidate, Gate, RoundRules
from streams.rebalance.outcome import RoundOutcome
from tests.golden import objects
from tests.golden.comparison import Json, differences_by_round
from tests.golden.times import in_milliseconds
from tests.plugin_arguments import low_node_load_args


def answer(scenario: Json) -> Json:
    """Return the answer in the form of the scenario's `expected`."""
    try:
        policy = policy_of(scenario["args"])
    except PolicyError as error:
        return {"error": str(error)}
    return {"rounds": list(World(policy, in_milliseconds(scenario)).rounds())}


def policy_of(args: Json) -> Policy:
    """Return the policy of a scenario's arguments.

    Raises:
        PolicyError: the arguments are refused.
    """
    args_read = low_node_load_args(dict(args), "koordinator")
    # A plugin does not know the interval between rounds: what it is given is what the start of the
    # descheduler has made of `detectorCacheTimeout` already.
    shortest = DeschedulingLimits.model_construct(descheduling_interval_ms=1)
    return Policy(compat="koordinator", rebalance=args_read, descheduling=shortest)


def differences(expected: Json, answer: Json) -> Iterator[str]:
    """Yield one line per difference."""
    return differences_by_round(expected, answer, _of_round)


def _of_round(number: int, want: Json, got: Json) -> Iterator[str]:
    for part in ("pools", "evicted"):
        if want.get(part) != got.get(part):
            yield f"round {number}, {part}: expected {want.get(part)}, found {got.get(part)}"


class World:
    """The cluster of a scenario."""

    def __init__(self, policy: Policy, scenario: Json) -> None:
        self.scenario = scenario
        self.inventory = Inventory(policy)
        exclusions = Exclusions(MoveHistory(objects.CLUSTER, policy), self.inventory)
        self.balancer = Balancer(objects.CLUSTER, self.inventory, exclusions)
        self._dry_run = policy.rebalance.dry_run
        self._items = {item["uid"]: item for item in scenario["pods"]}
        self.outcome = RoundOutcome(0)
        self._gone: dict[tuple[str, str], None] = {}
        """Namespace and name of pods that were evicted and are no more."""

    def rounds(self) -> Iterator[Json]:
        """Yield the answers of each round."""
        for node in self.scenario["nodes"]:
            self.inventory.apply_node(objects.node(node))
        for pod in self.scenario["pods"]:
            apply_lifecycle(self.inventory, objects.lifecycle("seen", pod))
        for step in self.scenario["rounds"]:
            yield self.round(step)

    def round(self, step: Json) -> Json:
        """Do one Balance call."""
        now_ms = objects.time_ms(step["now"]) or 0
        self.inventory.advance(now_ms)
        self._measure(step["nodeMetrics"])
        rules = RoundRules(
            leaving=(),
            explain_protection=self._explain_protection,
            find_refusing_nodes=lambda _: np.zeros(len(self.inventory.nodes), dtype=np.bool_),
            check_pod=lambda *_: None,
            propose=self._evict,
        )
        self.outcome = outcome = self.balancer.make_round(now_ms, rules)
        evicted = [] if self._dry_run else outcome.moves
        if self.scenario.get("dropEvicted"):
            for move in evicted:
                pod = move.held.pod
                self.inventory.release(pod.uid)
                self._gone[pod.namespace, pod.name] = None
        return _answer(outcome, evicted)

    def _explain_protection(self, held: HeldPod) -> str | None:
        return "not evictable" if self._items[held.pod.uid].get("notEvictable") else None

    def _evict(self, candidate: Candidate) -> Gate | None:
        fails = self._items[candidate.held.pod.uid].get("evictFails") and not self._dry_run
        return Gate("Evictor", "the eviction failed") if fails else None

    def _measure(self, metrics: list[Json]) -> None:
        """Replace all metrics by these."""
        measured = {item["node"] for item in metrics}
        for name in list(self.inventory.nodes):
            if name not in measured:
                gone = NodeMetric(cluster=objects.CLUSTER, node=name, removed=True)
                self.inventory.apply_metric(gone)
        for item in metrics:
            metric = objects.metric(item)
            pods = tuple(pod for pod in metric.pods if (pod.namespace, pod.name) not in self._gone)
            self.inventory.apply_metric(metric.model_copy(update={"pods": pods}))


def _answer(outcome: RoundOutcome, evicted: list[Candidate]) -> Json:
    result: dict[str, Any] = {
        "evicted": [
            {
                "pod": f"{move.held.pod.namespace}/{move.held.pod.name}",
                "node": move.node,
                "reason": move.reason,
            }
            for move in evicted
        ]
    }
    if outcome.pools:
        result["pools"] = [{"name": pool.name, "nodes": pool.classes} for pool in outcome.pools]
    return result
