"""Observes a cluster of the user for a while, without changing it.

A worker, a watch and a collector run on this machine, with the current kubeconfig. There is no binder
and no evictor, so no policy can bind or evict anything. Eviction commands are dry.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connectors.brokers.embedded import EmbeddedBroker
from connectors.queries.wording import sentence
from schemas.base.quantities import parse_amount
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodLifecycle
from simulation.kubernetes_demo.runner import read_policy
from simulation.kubernetes_demo.steps import READ_TOPICS, Observations
from simulation.kubernetes_demo.topic_client import TopicClient
from simulation.processes import make_duty, make_environment, make_worker, run_processes

CLUSTER = "observed"
_POLL_S = 5.0


@dataclass
class Observation:
    observed: Observations = field(default_factory=Observations)
    allocatable_millicores: dict[str, int] = field(default_factory=dict)
    """CPU of each node; 0: unknown."""
    pods: dict[str, str] = field(default_factory=dict)
    """Node of each live pod, by uid; empty if the pod waits."""
    at_s: float = 0.0

    def add(self, message: Any) -> None:
        if isinstance(message, NodeState):
            if message.event == "removed":
                self.allocatable_millicores.pop(message.node, None)
            else:
                cpu = str(message.allocatable.get("cpu", "0"))
                self.allocatable_millicores[message.node] = parse_amount("cpu", cpu)
        elif isinstance(message, PodLifecycle):
            if message.event in ("deleted", "finished"):
                self.pods.pop(message.pod.uid, None)
            else:
                self.pods[message.pod.uid] = message.pod.node or ""
        else:
            self.observed.add(message)

    def lines(self) -> Iterator[str]:
        waiting = sum(not node for node in self.pods.values())
        nodes = len(self.allocatable_millicores)
        yield f"{nodes} nodes, {len(self.pods)} pods, {waiting} of them without a node"
        yield f"{len(self.observed.cpu)} nodes were measured"
        shares: Counter[str] = Counter()
        for node, used in self.observed.cpu.items():
            if size := self.allocatable_millicores.get(node, 0):
                shares[node] = round(100 * used / size)
        for node, share in shares.most_common(5):
            yield f"  {node}: {share} % of its CPU used"
        yield f"{self.observed.dry} dry eviction commands; none was carried out"
        if self.observed.why:
            yield f"  reason of the newest: {self.observed.why}"
        if self.observed.newest_round is not None:
            yield f"  the newest round: {sentence(self.observed.newest_round)}"


def observe(
    kubeconfig: Path | None,
    context: str | None,
    sources: Path | None,
    directory: Path,
    seconds: float,
    show: Callable[[Observation], None],
) -> Observation:
    """Observe for a number of seconds. Raises ProcessDied and BrokerUnavailable."""
    directory.mkdir(parents=True, exist_ok=True)
    more = () if context is None else ("--context", context)
    measured = () if sources is None else ("--sources", str(sources.absolute()))
    seen, began_s = Observation(), time.monotonic()
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        settings = make_environment(broker.settings)
        parts = [
            make_worker(directory, settings),
            make_duty(directory, "watch", CLUSTER, kubeconfig, settings, more),
            make_duty(directory, "collect", CLUSTER, kubeconfig, settings, (*more, *measured)),
        ]
        processes = stack.enter_context(run_processes(parts))
        topics = (*READ_TOPICS, "node-state", "pod-lifecycle")
        client = stack.enter_context(TopicClient(broker.settings, topics))
        client.send("policies", read_policy(CLUSTER, "observe"))
        while seen.at_s < seconds:
            for message in client.receive(_POLL_S):
                seen.add(message)
            for each in processes:
                each.check()
            seen.at_s = time.monotonic() - began_s
            show(seen)
    return seen
