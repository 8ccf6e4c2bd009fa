"""The test suite of every usage source.

The test module of a source has a class `Test...(UsageSourceContract)` with a fixture `world`.
"""

from abc import ABC, abstractmethod
from typing import Any

from connectors.kubernetes.sources.base import KubernetesSource
from schemas.base.refusals import Refusal
from schemas.messages.metrics import NodeMetric
from schemas.messages.usage import NodeUsage
from schemas.topics.codec import decode, encode


class UsageSourceWorld(ABC):
    """The measured nodes."""

    source: KubernetesSource[Any]
    cluster: str
    nodes: tuple[str, ...]
    """All nodes that the source measures."""

    @abstractmethod
    async def pass_time(self) -> None:
        """Let enough time pass to measure every node again."""


class UsageSourceContract:
    """The suite."""

    async def test_every_node_is_measured_under_its_own_name(self, world: UsageSourceWorld) -> None:
        await world.pass_time()
        messages = [message async for message in world.source.read()]
        assert {message.node for message in messages} == set(world.nodes)
        assert {message.cluster for message in messages} == {world.cluster}

    async def test_all_messages_can_be_read(self, world: UsageSourceWorld) -> None:
        await world.pass_time()
        messages = [message async for message in world.source.read()]
        assert messages
        for message in messages:
            assert not isinstance(decode(world.source.topic, encode(message)), Refusal)

    async def test_times_of_a_node_never_go_back(self, world: UsageSourceWorld) -> None:
        messages: list[NodeUsage | NodeMetric] = []
        for _ in range(3):
            await world.pass_time()
            messages += [message async for message in world.source.read()]
        for node in world.nodes:
            times = [_at_ms(message) for message in messages if message.node == node]
            assert len(times) >= 3
            assert times == sorted(times)


def _at_ms(message: NodeUsage | NodeMetric) -> int:
    return message.sampled_at_ms if isinstance(message, NodeUsage) else message.updated_at_ms or 0
