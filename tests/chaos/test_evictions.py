"""The judge of evictions finds each fault that it is there to find, in a history made by the stage itself.

A pod is migrated on request: its first command is refused, the second one is carried out, and what its
owner makes in its place gets the room that was held.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest
from pydantic import BaseModel

from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.migrations import MigrationRequest, MigrationStatus
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import Pod, PodLifecycle, PodRef
from schemas.messages.policies import PolicyRecord
from schemas.messages.requests import SchedulingRequest
from schemas.topics.codec import decode, encode
from schemas.topics.partitions import partition_for
from streams.cluster.stage import ClusterStage
from streams.stage.records import InputRecord
from streams.worker.consume.ticker import tick_record
from tests.chaos import evictions, services
from tests.chaos.history import History
from tests.chaos.plan import SCENARIOS, Plan

_T = TypeVar("_T")

_PARTITIONS = 4
_CLUSTER = "c"
_AT = partition_for(_CLUSTER.encode(), _PARTITIONS)
_NOW_MS = 1_800_000_000_000
_PLAN = Plan(1, SCENARIOS[0], _PARTITIONS)

_COMMANDS, _STATUS, _OUTCOMES = "eviction-commands", "status", "command-outcomes"


class _World:
    """A stage, and a history of what it has read and said."""

    def __init__(self) -> None:
        self.history = History(_PARTITIONS)
        self._stage = ClusterStage(_AT, _PARTITIONS)
        self.now_ms = _NOW_MS

    def say(self, topic: str, message: BaseModel) -> None:
        """Let the stage apply a message."""
        self._apply(topic, encode(message))

    def wait(self, seconds: int) -> None:
        """Let the clock tick."""
        for _ in range(seconds):
            self.now_ms += 1_000
            self._apply("clock", tick_record(_AT, self.now_ms).value)

    def newest(self, topic: str, of: type[_T]) -> _T:
        """The newest message of a class on a topic."""
        messages = (decode(topic, each.value) for each in self.history.of(topic, _AT))
        return [each for each in messages if isinstance(each, of)][-1]

    def _apply(self, topic: str, value: bytes) -> None:
        result = self._stage.apply([_add(self.history, topic, value)])
        assert not result.dead_letters
        for output in result.outputs:
            # Faults name records by their place; rounds and drains would move it.
            if output.topic != _STATUS or b'"kind":"migration"' in output.value:
                _add(self.history, output.topic, output.value)


def _add(history: History, topic: str, value: bytes) -> InputRecord:
    records = history.topics.setdefault((topic, _AT), [])
    key = b"" if topic == "clock" else _CLUSTER.encode()
    records.append(InputRecord(topic, _AT, len(records), key, value, _NOW_MS))
    return records[-1]


def _place(world: _World, pod: Pod) -> Pod:
    """Let a pod ask for a node, get it and run there."""
    request = SchedulingRequest(cluster=_CLUSTER, pod=pod, requested_at_ms=world.now_ms)
    world.say("scheduling-requests", request)
    decision = world.newest("placement-decisions", PlacementDecision)
    assert decision.node is not None
    runs = pod.model_copy(update={"node": decision.node, "phase": "Running", "ready": True})
    world.say("pod-lifecycle", PodLifecycle(cluster=_CLUSTER, event="running", pod=runs))
    return runs


def _answer(world: _World, result: str) -> None:
    command = world.newest(_COMMANDS, EvictionCommand)
    outcome = {
        "command_id": command.command_id,
        "cluster": _CLUSTER,
        "command": "evict",
        "pod": command.pod,
        "node": command.node,
        "result": result,
        "happened_at_ms": world.now_ms,
    }
    world.say(_OUTCOMES, CommandOutcome.model_validate(outcome))


def _whole() -> tuple[History, int]:
    """The history of one migration from its beginning to its end, and the last time."""
    world = _World()
    world.wait(1)
    document = services.policy("ReservationFirst")
    world.say(
        "policies",
        PolicyRecord(cluster=_CLUSTER, document=document, applied_at_ms=world.now_ms),
    )
    for number in range(2):
        world.say("node-state", _PLAN.node(_CLUSTER, number))
    world.say("pod-lifecycle", services.workload(_CLUSTER, 0))
    pods = [_place(world, services.pod(_CLUSTER, 0, number)) for number in range(2)]
    world.say(
        "migration-requests",
        MigrationRequest(
            request_id="request-1",
            cluster=_CLUSTER,
            action="migrate",
            pod=PodRef(namespace=pods[0].namespace, name=pods[0].name, uid=pods[0].uid),
            requested_at_ms=world.now_ms,
        ),
    )
    world.wait(1)
    _answer(world, "refused")
    world.wait(3)
    _answer(world, "done")
    world.say("pod-lifecycle", PodLifecycle(cluster=_CLUSTER, event="deleted", pod=pods[0]))
    _place(world, services.replacement(pods[0]))
    world.wait(1)
    status = world.newest(_STATUS, MigrationStatus)
    assert (status.phase, status.attempts) == ("Succeeded", 2)
    return world.history, world.now_ms


def _problems(history: History, now_ms: int) -> list[str]:
    found = evictions.look(history, {_AT: now_ms})
    return [problem for problems in found.problems for problem in problems]


def test_a_migration_that_went_as_it_must_is_found_right() -> None:
    history, now_ms = _whole()
    found = evictions.look(history, {_AT: now_ms})
    assert [problem for problems in found.problems for problem in problems] == []
    assert found.figures == {
        "evictions commanded": 2,
        "further attempts": 1,
        "dry commands": 0,
        "evictions executed": 1,
        "migrations": 1,
        "migrations with room": 1,
        "migrations succeeded": 1,
    }


def test_what_is_published_twice_is_no_fault() -> None:
    history, now_ms = _whole()
    for topic in (_COMMANDS, _STATUS):
        for record in list(history.of(topic, _AT)):
            _add(history, topic, record.value or b"")
    assert _problems(history, now_ms) == []


def _lose(topic: str, number: int) -> Callable[[History], None]:
    def fault(history: History) -> None:
        del history.topics[topic, _AT][number]

    return fault


def _altered(topic: str, number: int, old: bytes, new: bytes) -> Callable[[History], None]:
    def fault(history: History) -> None:
        records = history.topics[topic, _AT]
        value = records[number].value or b""
        assert old in value
        records[number] = replace(records[number], value=value.replace(old, new))

    return fault


def _added(topic: str, number: int, old: bytes, new: bytes) -> Callable[[History], None]:
    """Beside the record one that differs."""

    def fault(history: History) -> None:
        value = history.of(topic, _AT)[number].value or b""
        assert old in value
        _add(history, topic, value.replace(old, new))

    return fault


def _delete_another_pod(history: History) -> None:
    pod = services.pod(_CLUSTER, 0, 1)
    gone = PodLifecycle(cluster=_CLUSTER, event="deleted", pod=pod)
    _add(history, "pod-lifecycle", encode(gone))


def _never_reported(history: History) -> None:
    history.topics[_STATUS, _AT].clear()


def _begin_another_migration(history: History) -> None:
    status = decode(_STATUS, history.of(_STATUS, _AT)[0].value)
    assert isinstance(status, MigrationStatus)
    other = status.model_copy(update={"migration_id": "m-another", "attempts": 0})
    records = history.topics[_STATUS, _AT]
    records.insert(1, replace(records[0], value=encode(other)))


_POD = b'"uid":"u-c-s0-0"'

FAULTS: list[tuple[Callable[[History], None], str]] = [
    (_lose(_COMMANDS, 0), "says 2 attempts, commanded are [2]"),
    (_lose(_COMMANDS, 1), "is its newest, commanded is"),
    (_added(_COMMANDS, 1, b'"dry_run":false', b'"dry_run":true'), "has 2 contents"),
    (_added(_COMMANDS, 1, b'"command_id":"e-', b'"command_id":"x-'), "was commanded 2 times"),
    (_altered(_COMMANDS, 0, _POD, b'"uid":"u-other"'), "is about pod u-other"),
    (_never_reported, "was never reported"),
    (_lose(_OUTCOMES, 0), "was alive until"),
    (_altered(_OUTCOMES, 1, b'"command_id":"e-', b'"command_id":"x-'), "never commanded"),
    (_altered(_OUTCOMES, 1, _POD, b'"uid":"u-other"'), "evicted was u-other"),
    (_altered(_COMMANDS, 1, b'"dry_run":false', b'"dry_run":true'), "which is dry"),
    (_added(_OUTCOMES, 1, b'"reason":""', b'"reason":"again"'), "was evicted 2 times"),
    (_lose("pod-lifecycle", 3), "evicted and not deleted"),
    (_delete_another_pod, "deleted and not evicted"),
    (_lose("scheduling-requests", 2), "nothing asked for a node in its place"),
    (_lose("placement-decisions", 2), "in its place has no decision"),
    (_added(_STATUS, 0, b'"attempts":0', b'"attempts":2'), "ended as Succeeded and is Pending"),
    (_begin_another_migration, "began while"),
    (
        _altered(_STATUS, -1, b'"phase":"Succeeded"', b'"phase":"Failed"'),
        "was evicted, and it is Failed",
    ),
]


@pytest.mark.parametrize(("fault", "problem"), FAULTS, ids=[problem for _, problem in FAULTS])
def test_every_fault_is_reported(fault: Callable[[History], None], problem: str) -> None:
    history, now_ms = _whole()
    fault(history)
    assert any(problem in each for each in _problems(history, now_ms))


def test_a_migration_that_lives_beyond_its_deadline_is_told() -> None:
    history, now_ms = _whole()
    _lose(_STATUS, -1)(history)
    assert _problems(history, now_ms) == []
    (problem,) = _problems(history, now_ms + services.TTL_S * 1_000)
    assert "its deadline was" in problem


def test_services_follow_each_other_under_names_of_their_own() -> None:
    pods = [services.pod(_CLUSTER, 0, number) for number in range(services.REPLICAS)]
    names = [pod.uid for pod in pods]
    for _ in range(3):
        evicted = pods
        pods = [services.replacement(pod) for pod in pods]
        assert [pod.annotations[services.REPLACES] for pod in pods] == [p.uid for p in evicted]
        names += [pod.uid for pod in pods]
    assert len(set(names)) == len(names)
