"""Consumer groups as the brokers know them: members, their partitions, committed offsets."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.kafka.client import Connection
from connectors.kafka.reader import Partition


@dataclass(frozen=True, slots=True)
class Member:
    """One process in a group."""

    host: str
    """Its address."""
    partitions: frozenset[Partition]
    """The partitions that the group assigned to the process."""


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group; a group that never existed has neither members nor offsets."""

    members: tuple[Member, ...] | None
    """None: the broker does not tell; `reason` says why."""
    committed: Mapping[Partition, int]
    """Offset of the next record to read."""
    reason: str = ""

    @property
    def has_existed(self) -> bool:
        """Tell whether a process has ever joined it, as far as the broker remembers."""
        return bool(self.members or self.committed)


def read_groups(connection: Connection, names: Collection[str]) -> dict[str, Group]:
    """Return the groups by name. Raises BrokerUnavailable if no broker answers."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    admin, timeout_s = connection.admin, connection.settings.connect_timeout_s
    described = admin.describe_consumer_groups(list(names), request_timeout=timeout_s)
    offsets = {
        name: admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=timeout_s
        )[name]
        for name in names
    }
    groups = {}
    for name in names:
        members, reason = _parse_members(connection, described[name])
        groups[name] = Group(members, _parse_committed(connection, offsets[name]), reason)
    return groups


def _parse_members(connection: Connection, answer: Any) -> tuple[tuple[Member, ...] | None, str]:
    """Return the members, or None and the reason why the broker does not list them."""
    found = _get_result(connection, answer)
    if isinstance(found, str):
        return None, found
    return tuple(
        Member(
            each.host.removeprefix("/"),
            frozenset(
                (place.topic, place.partition)
                for place in (each.assignment.topic_partitions if each.assignment else ())
            ),
        )
        for each in (found.members if found else ())
    ), ""


def _parse_committed(connection: Connection, answer: Any) -> dict[Partition, int]:
    found = _get_result(connection, answer)
    if isinstance(found, str):
        return {}
    return {
        (place.topic, place.partition): place.offset
        for place in (found.topic_partitions if found else ())
        if place.offset >= 0  # -1001 stands for none
    }


def _get_result(connection: Connection, answer: Any) -> Any:
    """Return the answer of a broker, the text of its refusal, or None if the group does not exist."""
    from confluent_kafka import KafkaException

    try:
        return answer.result()
    except KafkaException as error:
        reason = error.args[0]
        if reason.name() in ("_TIMED_OUT", "_TRANSPORT", "REQUEST_TIMED_OUT"):
            raise connection.silent(connection.settings.connect_timeout_s) from None
        if reason.name() == "GROUP_ID_NOT_FOUND":
            return None
        if reason.name() == "_UNSUPPORTED_FEATURE":
            return "not told by this broker"
        return str(reason.str())
