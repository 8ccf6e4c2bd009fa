"""The test suite of every state watch.

The test module of a watch has a class `Test...(StateWatchContract)` with a fixture `world`.
"""

from abc import ABC, abstractmethod
from typing import Any

from schemas.base.refusals import Refusal
from schemas.messages.lists import LISTED_TOPICS, ListBegin, ListEnd
from schemas.topics.codec import decode, encode


class StateWatchWorld(ABC):
    """The watched cluster."""

    cluster_name: str

    @abstractmethod
    async def full_list(self, list_id: str) -> list[tuple[str, Any]]:
        """Return the full lists of all topics."""

    @abstractmethod
    async def create_pod(self) -> str:
        """Create a pod without a node for loadstream, and return its uid."""

    @abstractmethod
    async def bind(self, uid: str) -> str:
        """Bind a pod as loadstream's binder does, and return the node."""

    @abstractmethod
    async def changes(self) -> list[tuple[str, Any]]:
        """Return the changes until now."""


class StateWatchContract:
    """The suite."""

    async def test_a_full_list_is_bracketed_on_every_topic_and_names_itself_in_every_record(
        self, world: StateWatchWorld
    ) -> None:
        records = await world.full_list("list")
        for topic in LISTED_TOPICS:
            first, *objects, last = [message for topic_of, message in records if topic_of == topic]
            assert isinstance(first, ListBegin)
            assert isinstance(last, ListEnd)
            assert objects
            assert {message.list_id for message in (first, *objects, last)} == {"list"}
            assert {message.cluster for message in objects} == {world.cluster_name}
        assert {topic for topic, _ in records} - {"scheduling-requests"} == set(LISTED_TOPICS)

    async def test_all_reported_records_can_be_read(self, world: StateWatchWorld) -> None:
        records = await world.full_list("list")
        await world.bind(await world.create_pod())
        for topic, message in records + await world.changes():
            assert not isinstance(decode(topic, encode(message)), Refusal)

    async def test_a_pod_without_a_node_is_a_request_and_its_binding_a_lifecycle_event(
        self, world: StateWatchWorld
    ) -> None:
        await world.changes()
        uid = await world.create_pod()
        node = await world.bind(uid)
        changes = await world.changes()
        requests = [message for topic, message in changes if topic == "scheduling-requests"]
        assert [(request.pod.uid, request.withdrawn) for request in requests] == [(uid, False)]
        bound = [m for topic, m in changes if topic == "pod-lifecycle" and hasattr(m, "pod")]
        assert [
            (lifecycle.event, lifecycle.pod.uid, lifecycle.pod.node) for lifecycle in bound
        ] == [("bound", uid, node)]

    async def test_reported_changes_are_not_reported_again(self, world: StateWatchWorld) -> None:
        await world.create_pod()
        assert await world.changes()
        assert await world.changes() == []

    async def test_a_later_list_has_new_objects(self, world: StateWatchWorld) -> None:
        uid = await world.create_pod()
        await world.bind(uid)
        listed = [message for _, message in await world.full_list("later")]
        assert uid in {message.pod.uid for message in listed if hasattr(message, "pod")}
