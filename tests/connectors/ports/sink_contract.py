"""The test suite of every sink, together with the command rules.

The test module of a sink has a class `Test...(SinkContract)` with a fixture `world`: a cluster of its
kind with the pods that the suite needs.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from connectors.ports.command_rules import Command, CommandRules
from connectors.ports.sink import Sink
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.decisions import AsOf, PlacementDecision
from schemas.messages.pods import PodRef

NOW_MS = 1_772_409_600_000
MINUTE_MS = 60_000
CLUSTER = "c"
UNKNOWN = PodRef(namespace="default", name="unknown", uid="unknown")
_AS_OF = AsOf(partition=0, offsets={}, policy_digest="")


class SinkWorld(ABC):
    """The cluster of a sink, with a node that has room for a hundred pods."""

    node: str
    sink: Sink

    @abstractmethod
    async def waiting_pod(self) -> PodRef:
        """Create a pod without a node."""

    @abstractmethod
    async def running_pod(self, *, budgeted: bool = False) -> PodRef:
        """Create a pod on the node; `budgeted`: a disruption budget forbids its eviction."""

    @abstractmethod
    async def node_of(self, pod: PodRef) -> str | None:
        """Return the node of a pod; None if it has no node or does not exist."""

    @abstractmethod
    async def terminates(self, pod: PodRef) -> bool:
        """Return whether a pod was evicted or deleted."""

    @abstractmethod
    async def annotations(self, pod: PodRef) -> Mapping[str, str]:
        """Return the annotations of a pod."""


def decision(pod: PodRef, node: str, **more: Any) -> PlacementDecision:
    """Return a placement of a pod with a new id."""
    values: dict[str, Any] = {
        "decision_id": f"bind-{pod.uid}", "cluster": CLUSTER, "pod": pod, "outcome": "placed",
        "node": node, "decided_at_ms": NOW_MS, "expires_at_ms": NOW_MS + MINUTE_MS, "as_of": _AS_OF,
    }  # fmt: skip
    return PlacementDecision(**(values | more))


def eviction(pod: PodRef, node: str, **more: Any) -> EvictionCommand:
    """Return an eviction of a pod with a new id."""
    values: dict[str, Any] = {
        "command_id": f"evict-{pod.uid}", "cluster": CLUSTER, "pod": pod, "node": node,
        "reason": "hot", "dry_run": False, "decided_at_ms": NOW_MS,
        "expires_at_ms": NOW_MS + MINUTE_MS, "as_of": _AS_OF,
    }  # fmt: skip
    return EvictionCommand(**(values | more))


def recreate(pod: PodRef) -> PodRef:
    """Return a later pod with the same name."""
    return pod.model_copy(update={"uid": f"{pod.uid}-later"})


class SinkContract:
    """The suite."""

    async def _result(self, world: SinkWorld, *commands: Command, now_ms: int = NOW_MS) -> str:
        """Return the result of the last outcome, or an empty string."""
        rules = CommandRules(CLUSTER, world.sink, now_ms)
        outcomes = [await rules.carry_out(command) for command in commands]
        return outcomes[-1].result if outcomes[-1] is not None else ""

    async def _outcome(self, world: SinkWorld, command: Command) -> CommandOutcome:
        outcome = await CommandRules(CLUSTER, world.sink, NOW_MS).carry_out(command)
        assert outcome is not None
        return outcome

    async def test_a_placed_pod_is_bound_to_its_node(self, world: SinkWorld) -> None:
        pod = await world.waiting_pod()
        rules = CommandRules(CLUSTER, world.sink, NOW_MS)
        outcome = await rules.carry_out(decision(pod, world.node))
        assert outcome == CommandOutcome(
            command_id=f"bind-{pod.uid}",
            cluster=CLUSTER,
            command="bind",
            pod=pod,
            node=world.node,
            result="done",
            happened_at_ms=NOW_MS,
        )
        assert await world.node_of(pod) == world.node

    async def test_a_repeated_placement_has_one_outcome(self, world: SinkWorld) -> None:
        command = decision(await world.waiting_pod(), world.node)
        assert await self._result(world, command, command) == ""

    async def test_a_pod_that_is_bound_is_not_bound_again(self, world: SinkWorld) -> None:
        pod = await world.running_pod()
        assert await self._result(world, decision(pod, "elsewhere")) == "failed"
        assert await world.node_of(pod) == world.node

    async def test_one_of_two_concurrent_placements_of_a_pod_is_carried_out(
        self, world: SinkWorld
    ) -> None:
        pod = await world.waiting_pod()
        rules = CommandRules(CLUSTER, world.sink, NOW_MS)
        commands = [decision(pod, world.node, decision_id=f"decision-{n}") for n in range(2)]
        outcomes = await asyncio.gather(*(rules.carry_out(command) for command in commands))
        assert [outcome.result for outcome in outcomes if outcome] == ["done", "failed"]

    async def test_a_placement_that_has_expired_binds_nothing(self, world: SinkWorld) -> None:
        pod = await world.waiting_pod()
        late_ms = NOW_MS + MINUTE_MS
        assert await self._result(world, decision(pod, world.node), now_ms=late_ms) == "expired"
        assert await world.node_of(pod) is None

    async def test_a_pod_of_another_uid_is_not_bound_and_reported_as_gone(
        self, world: SinkWorld
    ) -> None:
        pod = await world.waiting_pod()
        outcome = await self._outcome(world, decision(recreate(pod), world.node))
        assert (outcome.result, outcome.pod_gone) == ("failed", True)
        assert await world.node_of(pod) is None

    async def test_a_pod_that_does_not_exist_is_not_bound_and_reported_as_gone(
        self, world: SinkWorld
    ) -> None:
        outcome = await self._outcome(world, decision(UNKNOWN, world.node))
        assert (outcome.result, outcome.pod_gone) == ("failed", True)

    async def test_an_existing_pod_is_not_reported_as_gone(self, world: SinkWorld) -> None:
        pod = await world.running_pod()
        for command in (decision(pod, "elsewhere"), eviction(pod, "elsewhere")):
            assert not (await self._outcome(world, command)).pod_gone

    async def test_many_placements_at_once_have_one_outcome_each(self, world: SinkWorld) -> None:
        pods = [await world.waiting_pod() for _ in range(100)]
        rules = CommandRules(CLUSTER, world.sink, NOW_MS)
        outcomes = await asyncio.gather(
            *(rules.carry_out(decision(pod, world.node)) for pod in pods * 2)
        )
        ids = [outcome.command_id for outcome in outcomes if outcome and outcome.result == "done"]
        assert sorted(ids) == sorted(f"bind-{pod.uid}" for pod in pods)
        assert len([outcome for outcome in outcomes if outcome]) == len(pods)

    async def test_an_evicted_pod_terminates(self, world: SinkWorld) -> None:
        pod = await world.running_pod()
        assert await self._result(world, eviction(pod, world.node)) == "done"
        assert await world.terminates(pod)

    async def test_a_repeated_eviction_has_one_outcome(self, world: SinkWorld) -> None:
        command = eviction(await world.running_pod(), world.node)
        assert await self._result(world, command, command) == ""

    async def test_an_eviction_that_has_expired_evicts_nothing(self, world: SinkWorld) -> None:
        pod = await world.running_pod()
        late_ms = NOW_MS + MINUTE_MS
        assert await self._result(world, eviction(pod, world.node), now_ms=late_ms) == "expired"
        assert not await world.terminates(pod)

    async def test_a_dry_run_evicts_nothing(self, world: SinkWorld) -> None:
        pod = await world.running_pod()
        assert await self._result(world, eviction(pod, world.node, dry_run=True)) == "dry"
        assert not await world.terminates(pod)

    async def test_a_pod_of_another_uid_is_not_evicted_and_reported_as_gone(
        self, world: SinkWorld
    ) -> None:
        pod = await world.running_pod()
        outcome = await self._outcome(world, eviction(recreate(pod), world.node))
        assert (outcome.result, outcome.pod_gone) == ("refused", True)
        assert not await world.terminates(pod)

    async def test_a_pod_that_does_not_exist_is_not_evicted_and_reported_as_gone(
        self, world: SinkWorld
    ) -> None:
        outcome = await self._outcome(world, eviction(UNKNOWN, world.node))
        assert (outcome.result, outcome.pod_gone) == ("refused", True)

    async def test_a_pod_on_another_node_is_not_evicted(self, world: SinkWorld) -> None:
        pod = await world.running_pod()
        assert await self._result(world, eviction(pod, "elsewhere")) == "refused"
        assert not await world.terminates(pod)

    async def test_a_budget_forbids_evictions_and_no_deletions(self, world: SinkWorld) -> None:
        pod = await world.running_pod(budgeted=True)
        # The migration retries, so the refusal is reported at once.
        command = eviction(pod, world.node, retry_until_ms=NOW_MS + MINUTE_MS)
        assert await self._result(world, command) == "refused"
        assert not await world.terminates(pod)
        command = eviction(pod, world.node, policy="Delete", command_id="deletion")
        assert await self._result(world, command) == "done"
        assert await world.terminates(pod)

    async def test_a_soft_eviction_annotates_the_pod_and_keeps_it(self, world: SinkWorld) -> None:
        pod = await world.running_pod()
        annotations = {"example.com/move": "please"}
        command = eviction(pod, world.node, policy="SoftEviction", annotations=annotations)
        assert await self._result(world, command) == "done"
        assert (await world.annotations(pod))["example.com/move"] == "please"
        assert not await world.terminates(pod)
