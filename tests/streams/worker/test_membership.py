"""Causes that keep a worker out of its consumer group are reported."""

import asyncio
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.topics import expected_topics
from connectors.process.local_ports import find_free_port
from schemas.settings.connection import APP_ID
from streams.worker.membership import CoordinatorEnded, GroupStatus, Membership, read_group_status
from streams.worker.partitions import StageProblems
from tests.conftest import eventually, running
from tests.streams.noticing import problems
from tests.streams.worker_process import Worker

_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_ANY = AclBindingFilter(
    ResourceType.GROUP, APP_ID, ResourcePatternType.LITERAL, None, None, AclOperation.ANY,
    AclPermissionType.ANY,
)  # fmt: skip


class _Coordinator:
    """The attributes of aiokafka's coordinator that `read_group_status` uses."""

    def __init__(self, generation: int = -1, error: KafkaError | None = None) -> None:
        self.generation = generation
        self._error = error
        self._coordination_task: asyncio.Future[None] = asyncio.Future()

    def end(self) -> None:
        self._coordination_task.set_result(None)

    def check_errors(self) -> None:
        if self._error is not None:
            raise self._error


def _consumer(coordinator: _Coordinator | None) -> Any:
    return SimpleNamespace(_coordinator=coordinator)


async def test_a_client_reports_the_state_of_its_coordinator() -> None:
    refused = GroupAuthorizationFailedError(APP_ID)
    for consumer in (None, _consumer(None), _consumer(_Coordinator())):
        assert read_group_status(consumer) == GroupStatus(is_member=False)
    assert read_group_status(_consumer(_Coordinator(3))) == GroupStatus(is_member=True)
    out = _Coordinator(error=refused)
    assert read_group_status(_consumer(out)) == GroupStatus(is_member=False, error=refused)
    out.end()
    status = read_group_status(_consumer(out))
    assert status == GroupStatus(is_member=False, error=refused, has_ended=True)


class _App:
    """Returns these group statuses one by one, then ends the watch."""

    conf = SimpleNamespace(id=APP_ID)

    def __init__(self, *statuses: GroupStatus) -> None:
        self._statuses = list(statuses)
        self.crashed: BaseException | None = None

    async def group_status(self) -> GroupStatus:
        if not self._statuses:
            raise asyncio.CancelledError
        return self._statuses.pop(0)

    async def crash(self, error: BaseException) -> None:
        self.crashed = error


async def _look_on(app: _App, notices: StageProblems) -> None:
    with suppress(asyncio.CancelledError):
        await Membership(app, [notices]).run()


async def test_a_cause_is_reported_until_the_worker_has_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streams.worker.membership.CHECK_INTERVAL_S", 0.0)
    refused = GroupStatus(is_member=False, error=GroupAuthorizationFailedError(APP_ID))
    between = GroupStatus(is_member=False)
    notices = StageProblems("cluster")
    await _look_on(_App(refused, between), notices)
    (sentence,) = notices.sentences
    assert "cannot join consumer group loadstream" in sentence
    assert "GroupAuthorizationFailedError" in sentence
    assert "grant the worker permission Read on the group" in sentence
    await _look_on(_App(GroupStatus(is_member=True)), notices)
    assert notices.sentences == []


async def test_a_worker_stops_with_its_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.worker.membership.CHECK_INTERVAL_S", 0.0)
    app = _App(GroupStatus(is_member=False, error=KafkaError("unexpected"), has_ended=True))
    await _look_on(app, StageProblems("cluster"))
    assert isinstance(app.crashed, CoordinatorEnded)
    assert "unexpected" in str(app.crashed)


@pytest.mark.kafka
def test_a_worker_reports_a_missing_group_permission_and_joins_once_granted(
    tmp_path: Path,
) -> None:
    with running(KafkaServer(tmp_path / "kafka", properties=_AUTHORIZER)) as server:
        kafka = server.settings
        create_topics(connect(kafka), expected_topics(kafka))
        admin = AdminClient(kafka.librdkafka_options())
        # Once a group has ACLs, other users have no access to it.
        of_others = AclBinding(
            ResourceType.GROUP, APP_ID, ResourcePatternType.LITERAL, "User:other", "*",
            AclOperation.READ, AclPermissionType.ALLOW,
        )  # fmt: skip
        for answer in admin.create_acls([of_others]).values():
            answer.result()
        port = find_free_port()
        (tmp_path / "worker").mkdir()
        with Worker(kafka, tmp_path / "worker", metrics_port=str(port)) as worker:
            problem = "cannot join consumer group loadstream"
            assert eventually(lambda: problem in problems(port)), worker.log()
            assert problem in worker.whole_log()
            assert not worker.ended
            for deleted in admin.delete_acls([_ANY]).values():
                deleted.result()
            assert eventually(lambda: not problems(port)), worker.log()
            assert worker.stop() == 0
