"""What earlier versions wrote is read: topics, journals and rows, while a fleet is upgraded.

`tests/recordings` holds what each version wrote; CONTRIBUTING.md says how that is renewed.
"""

import copy
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from schemas.clock import ClockTick
from schemas.codec import decode, decode_as, encode
from schemas.decisions import PlacementDecision
from schemas.export import documents
from schemas.pods import Container, Pod
from schemas.refusals import Refusal
from schemas.requests import SchedulingRequest
from schemas.topics import TOPIC_BY_NAME
from streams.aggregate.collect import AggregateLimits, Collecting
from streams.aggregate.restore import restore
from streams.aggregate.rows import TABLE as WINDOWS
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import TABLES, ClusterStage
from streams.stage import journal
from streams.stage.journal import PLACES
from streams.stage.packing import put
from streams.stage.records import InputRecord, RowChange
from streams.worker.fence import FencedPublisher
from streams.worker.journal_first import JournalFirst, RowWriter
from tests.conftest import RunningBroker
from tests.recordings.__main__ import record
from tests.recordings.narrowing import narrowings

_DIRECTORY = Path(__file__).parent / "recordings"
_NAMES = sorted(each.parent.name for each in _DIRECTORY.glob("*/records.jsonl"))
_TODAY = "today"
_UNREADABLE = "not json"
_PARTITION, _PARTITIONS = 0, 1

Line = dict[str, Any]


@pytest.fixture(params=[*_NAMES, _TODAY])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A recording, of this version as well: at its release it is checked in."""
    if request.param == _TODAY:
        record(tmp_path)
        return tmp_path
    return _DIRECTORY / str(request.param)


@pytest.fixture
def lines(directory: Path) -> list[Line]:
    """Its records."""
    text = (directory / "records.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def schemas(directory: Path) -> dict[str, Any]:
    """What was published then."""
    found: dict[str, Any] = json.loads((directory / "schemas.json").read_text(encoding="utf-8"))
    return found


def _inputs(lines: list[Line], *, of_usage: bool) -> list[InputRecord]:
    return [
        InputRecord(
            line["topic"],
            _PARTITION,
            line["offset"],
            line["key"].encode(),
            line["value"].encode(),
            line["timestamp_ms"],
        )
        for line in lines
        if line["kind"] == "input" and (line["topic"] == "node-usage") == of_usage
    ]


def _rows(lines: list[Line]) -> dict[str, dict[str, bytes]]:
    rows: dict[str, dict[str, bytes]] = defaultdict(dict)
    for line in lines:
        if line["kind"] == "row" and line["value"] is not None:
            rows[line["table"]][line["key"]] = line["value"].encode()
    return rows


def test_there_are_recordings() -> None:
    assert "0.1.0" in _NAMES


def test_every_message_is_read(lines: list[Line]) -> None:
    read = set()
    for line in lines:
        if line["topic"] in TOPIC_BY_NAME and line["value"] != _UNREADABLE:
            message = decode(line["topic"], line["value"].encode())
            assert not isinstance(message, Refusal), f"{line}: {message}"
            read.add(line["topic"])
    assert {"node-usage", "scheduling-requests", "journal", "dead-letters"} <= read


async def test_the_cluster_stage_goes_on_from_rows_and_journal(
    lines: list[Line], embedded: RunningBroker
) -> None:
    publisher = FencedPublisher(embedded.settings)
    await publisher.start()
    try:
        values = [each["value"].encode() for each in lines if each["kind"] == "journal"]
        await publisher.append(journal.TOPIC, _PARTITION, values)
        tables = _Tables()
        writer = RowWriter([tables.named(each) for each in (*TABLES, PLACES)], publisher)
        durability = JournalFirst(embedded.settings, publisher, writer)
        old = _rows(lines)
        redone = await durability.open(_PARTITION, {name: old[name] for name in (*TABLES, PLACES)})
    finally:
        await publisher.stop()
    assert redone["partitions"] != old["partitions"], "the journal goes on after the rows"
    stage = _stage(redone)
    records = _inputs(lines, of_usage=False)
    assert stage.positions == {record.topic: record.offset for record in records}
    _is_what_was_recorded(stage, lines)
    _goes_on(stage)


def _stage(rows: dict[str, dict[str, bytes]]) -> ClusterStage:
    found = ((table, key, value) for table in TABLES for key, value in rows[table].items())
    return ClusterStage.restored(_PARTITION, _PARTITIONS, found)


class _Tables:
    """Local copies that rows are written to."""

    def named(self, name: str) -> Any:
        """A table."""
        return _Table(name)


class _Table:
    def __init__(self, name: str) -> None:
        self.name = name
        self.changelog = "dead-letters"
        """Any topic that is there: what is written is not looked at."""

    def store(self, changes: Any) -> None:
        """Nobody reads them."""


def _is_what_was_recorded(stage: ClusterStage, lines: list[Line]) -> None:
    """Who holds room, and who waits, by the newest rows of the recording itself."""
    rows = {
        (table, key): value for table, each in _rows(lines).items() for key, value in each.items()
    }
    values = [line["value"].encode() for line in lines if line["kind"] == "journal"]
    tail = journal.follow(journal.Place(), enumerate(values))
    put(rows, (RowChange(table, key, value) for (table, key), value in tail.rows.items()))
    held, waiting = set(), set()
    for (table, _), value in rows.items():
        if table == "reserved_pods":
            held |= {each["pod"]["uid"] for each in json.loads(value)["pods"]}
        if table == "pending_requests":
            waiting.add(json.loads(value)["request"]["pod"]["uid"])
    state = stage.clusters["c"]
    assert set(state.inventory.where) == held
    figures = stage.figures().clusters[0]
    assert figures.pending_requests == len(waiting)
    assert len(held) > 3
    assert len(waiting) > 0


def _goes_on(stage: ClusterStage) -> None:
    assert stage.now_ms is not None
    now_ms = stage.now_ms + 1_000
    container = Container(requests={"cpu": "100m", "memory": "1Mi"})
    pod = Pod(namespace="default", name="new", uid="u-new", containers=(container,))
    request = SchedulingRequest(cluster="c", pod=pod, requested_at_ms=now_ms)
    tick = ClockTick(partition=_PARTITION, now_ms=now_ms)
    next_ = {topic: offset + 1 for topic, offset in stage.positions.items()}
    records = [
        InputRecord("clock", 0, next_["clock"], b"0", encode(tick), now_ms),
        InputRecord(
            "scheduling-requests", 0, next_["scheduling-requests"], b"c", encode(request), now_ms
        ),
    ]
    result = stage.apply(records)
    assert result.dead_letters == ()
    decisions = [decode_as(PlacementDecision, each.value) for each in result.outputs]
    assert any(
        isinstance(each, PlacementDecision) and each.pod.uid == "u-new" and each.outcome == "placed"
        for each in decisions
    )


def test_the_aggregate_stage_goes_on_from_rows_as_it_would_have_then(lines: list[Line]) -> None:
    rows = _rows(lines)[WINDOWS]
    stage = AggregateStage(restore(_PARTITION, rows, Collecting()), _PARTITIONS, AggregateLimits())
    records = _inputs(lines, of_usage=True)
    assert 0 < stage.positions["node-usage"] < records[-1].offset
    found = [json.loads(each.value) for each in stage.apply(records).outputs]
    recorded = [
        json.loads(each["value"])
        for each in lines
        if each["kind"] == "output" and each["topic"] == "node-metrics"
    ]
    assert found
    assert len(found) < len(recorded)
    for new, old in zip(found, recorded[-len(found) :], strict=True):
        assert _known_then(new, old) == old


def _known_then(new: Any, old: Any) -> Any:
    """What is said now, without fields that are new, at whatever depth."""
    if isinstance(new, dict) and isinstance(old, dict):
        return {name: _known_then(new.get(name), each) for name, each in old.items()}
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [_known_then(each, before) for each, before in zip(new, old, strict=True)]
    return new


def test_no_schema_refuses_what_was_allowed(schemas: dict[str, Any]) -> None:
    present = {name: json.loads(each) for name, each in documents().items() if name in schemas}
    problems = [
        f"{name}{problem}"
        for name, schema in schemas.items()
        if name in present
        for problem in narrowings(schema, present[name])
    ]
    problems += [f"{name} is not published any more" for name in schemas.keys() - present.keys()]
    assert problems == []


@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        ("", {"required": ["cluster", "pool"]}, "pool: is required now"),
        ("properties/phase", {"enum": ["a"]}, "['b'] are not allowed any more"),
        ("properties/count", {"maximum": 5}, "maximum is 5, was 10"),
        ("properties/count", {"minimum": 1}, "minimum is 1, was 0"),
        ("properties/count", {"type": "string"}, "was of type integer, is of type string"),
        ("properties/name/anyOf/0", {"maxLength": 3}, "maxLength is 3, was none"),
        ("$defs/Part", {"required": ["new"]}, "new: is required now"),
        ("properties", {"phase": None}, "phase: is gone"),
        ("", {"additionalProperties": False}, "not allowed any more"),
        ("properties/cluster", {"pattern": "^b"}, "pattern is ^b"),
        ("properties/cluster", {"enum": ["x"]}, "only ['x'] are allowed now"),
    ],
)
def test_a_change_that_breaks_a_rolling_upgrade_is_named(
    path: str, change: dict[str, Any], said: str
) -> None:
    old = {
        "$defs": {"Part": {"type": "object", "properties": {"new": {"type": "string"}}}},
        "type": "object",
        "required": ["cluster"],
        "properties": {
            "cluster": {"type": "string"},
            "phase": {"type": "string", "enum": ["a", "b"]},
            "count": {"type": "integer", "minimum": 0, "maximum": 10},
            "name": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
        },
    }
    new = copy.deepcopy(old)
    place: Any = new
    for step in path.split("/") if path else ():
        place = place[int(step)] if isinstance(place, list) else place[step]
    for name, value in change.items():
        if value is None:
            del place[name]
        else:
            place[name] = value
    assert narrowings(old, old) == []
    assert any(said in problem for problem in narrowings(old, new)), narrowings(old, new)
    wider = copy.deepcopy(old)
    wider["properties"]["more"] = {"type": "string"}  # type: ignore[index]
    wider["properties"]["phase"]["enum"].append("c")  # type: ignore[index]
    assert narrowings(old, wider) == []
