"""`python -m tests.recordings NAME`: what this version reads and writes, kept for the versions after it.

    tests/recordings/NAME/records.jsonl   topics, journals and rows of a short run without Kafka
    tests/recordings/NAME/schemas.json    the schemas published by this version

The run is the same whenever it is made. Both stages take in everything twice as far as their tables say: the
rows are those of the middle, the rest stands in the journal, as a worker leaves it that was killed.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from schemas.clock import ClockTick
from schemas.codec import encode
from schemas.connection import APP_ID
from schemas.examples import EXAMPLES
from schemas.export import documents
from schemas.lists import ListBegin, ListEnd
from schemas.metrics import NodeMetric
from schemas.nodes import NodeState
from schemas.outcomes import CommandOutcome
from schemas.pods import Container, Pod, PodLifecycle, PodRef
from schemas.policies import PolicyRecord
from schemas.requests import SchedulingRequest
from schemas.rows import JournalPositionRow
from schemas.topics import TOPIC_BY_NAME
from schemas.usage import NodeUsage, PodUsage
from streams.aggregate.collect import AggregateLimits, Collecting
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.stage import journal
from streams.stage.journal import PLACES
from streams.stage.packing import put
from streams.stage.records import InputRecord, OutputRecord, RowChange

DIRECTORY = Path(__file__).parent
#: One partition holds everything.
PARTITION, PARTITIONS = 0, 1
CLUSTER = "c"
NOW_MS = 1_793_181_600_000
#: Records of a batch, and batches whose rows are written.
BATCH_RECORDS = 4
WRITTEN_BATCHES = 5

POLICY = """
reservationSeconds: 60
loadAware:
  usageThresholds: {cpu: 65}
"""

Line = dict[str, object]


def main() -> int:
    """Write a recording."""
    parser = argparse.ArgumentParser(prog="python -m tests.recordings", description=__doc__)
    parser.add_argument("name", help="the version, as 0.1.0")
    directory = DIRECTORY / parser.parse_args().name
    lines, schemas = record(directory)
    print(f"{lines} records and {schemas} schemas are in {directory}")
    return 0


def record(directory: Path) -> tuple[int, int]:
    """Write both files; how many records and schemas they hold."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = [*_examples(), *_cluster(), *_aggregate()]
    text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    (directory / "records.jsonl").write_text(text, encoding="utf-8")
    # Rows that no stage of this version writes are nobody's to read.
    written = {*TOPIC_BY_NAME, *(line["table"] for line in lines if "table" in line)}
    schemas = {
        name: json.loads(document)
        for name, document in sorted(documents().items())
        if name.endswith(".json") and name.removesuffix(".json") in written
    }
    text = json.dumps(schemas, sort_keys=True, separators=(",", ":")) + "\n"
    (directory / "schemas.json").write_text(text, encoding="utf-8")
    return len(lines), len(schemas)


def _examples() -> Iterator[Line]:
    """A message of every kind of every topic."""
    for topic, messages in EXAMPLES.items():
        for message in messages:
            yield _line("example", topic, "", encode(message))


# --- the cluster stage --------------------------------------------------------------------------


def _cluster() -> list[Line]:
    records = _numbered(_cluster_inputs())
    lines = [_of_input(record) for record in records]
    stage = ClusterStage(PARTITION, PARTITIONS)
    place = journal.Place(0, -1, 0)
    lines.append(_line("journal", journal.TOPIC, str(PARTITION), journal.opening(PARTITION)))
    rows: dict[tuple[str, str], bytes] = {}
    end = 0
    for number, batch in enumerate(_batches(records), start=1):
        result = stage.apply(batch)
        for value in journal.batch(PARTITION, place, batch, result):
            lines.append(_line("journal", journal.TOPIC, str(PARTITION), value))
            end += 1
        place = journal.Place(0, place.sequence + 1, end)
        lines += [_of_output(each) for each in (*result.outputs, *result.dead_letters)]
        if number <= WRITTEN_BATCHES:
            put(rows, result.rows)
        if number == WRITTEN_BATCHES:
            position = JournalPositionRow(
                partition=PARTITION, epoch=0, sequence=place.sequence, offset=place.offset
            )
            rows[PLACES, str(PARTITION)] = encode(position)
    lines += [_of_row(RowChange(table, key, value)) for (table, key), value in rows.items()]
    return lines


def _cluster_inputs() -> Iterator[tuple[str, bytes]]:
    yield "clock", _tick(0)
    policy = PolicyRecord(cluster=CLUSTER, document=POLICY, applied_at_ms=NOW_MS)
    yield "policies", encode(policy)
    yield "node-state", encode(ListBegin(cluster=CLUSTER, list_id="first"))
    for number in range(3):
        yield "node-state", encode(_node(number).model_copy(update={"list_id": "first"}))
    yield "node-state", encode(ListEnd(cluster=CLUSTER, list_id="first"))
    for number in range(3):
        usage = {"cpu": 500 * number, "memory": 2**30}
        metric = NodeMetric(cluster=CLUSTER, node=f"n{number}", updated_at_ms=NOW_MS, usage=usage)
        yield "node-metrics", encode(metric)
    for number in range(6):
        yield "scheduling-requests", encode(_request(f"p{number}", "500m"))
    yield "scheduling-requests", encode(_request("too-large", "500"))
    yield "scheduling-requests", b"not json"
    yield "clock", _tick(5)
    for number in range(3):
        pod = _pod(f"p{number}", "500m").model_copy(update={"node": f"n{number}"})
        yield "pod-lifecycle", encode(PodLifecycle(cluster=CLUSTER, event="bound", pod=pod))
    finished = _pod("p0", "500m").model_copy(update={"node": "n0", "phase": "Succeeded"})
    yield "pod-lifecycle", encode(PodLifecycle(cluster=CLUSTER, event="finished", pod=finished))
    stranger = _pod("stranger", "1").model_copy(update={"node": "n1"})
    yield "pod-lifecycle", encode(PodLifecycle(cluster=CLUSTER, event="running", pod=stranger))
    outcome = CommandOutcome(
        command_id="0" * 24,
        cluster=CLUSTER,
        command="bind",
        pod=PodRef(namespace="default", name="p5", uid="u-p5"),
        node="n0",
        result="failed",
        happened_at_ms=NOW_MS + 6_000,
    )
    yield "command-outcomes", encode(outcome)
    yield "node-state", encode(_node(2).model_copy(update={"unschedulable": True}))
    yield "clock", _tick(30)
    # By now the reservations that nobody confirmed have ended, and their pods ask again.
    yield "clock", _tick(70)
    yield "scheduling-requests", encode(_request("late", "500m"))


def _tick(seconds: int) -> bytes:
    return encode(ClockTick(partition=PARTITION, now_ms=NOW_MS + 1_000 * seconds))


def _node(number: int) -> NodeState:
    allocatable = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return NodeState(cluster=CLUSTER, node=f"n{number}", event="added", allocatable=allocatable)


def _pod(name: str, cpu: str) -> Pod:
    container = Container(requests={"cpu": cpu, "memory": "256Mi"})
    return Pod(namespace="default", name=name, uid=f"u-{name}", containers=(container,))


def _request(name: str, cpu: str) -> SchedulingRequest:
    return SchedulingRequest(cluster=CLUSTER, pod=_pod(name, cpu), requested_at_ms=NOW_MS)


# --- the aggregate stage ------------------------------------------------------------------------


def _aggregate() -> list[Line]:
    records = _numbered(("node-usage", value) for value in _samples())
    lines = [_of_input(record) for record in records]
    state = restore(PARTITION, {}, Collecting())
    stage = AggregateStage(state, PARTITIONS, AggregateLimits())
    rows: dict[tuple[str, str], bytes | None] = {}
    for number, batch in enumerate(_batches(records), start=1):
        result = stage.apply(batch)
        lines += [_of_output(each) for each in (*result.outputs, *result.dead_letters)]
        if number <= WRITTEN_BATCHES:
            rows.update({(row.table, row.key): row.value for row in result.rows})
    lines += [_of_row(RowChange(table, key, value)) for (table, key), value in rows.items()]
    return lines


def _samples() -> Iterator[bytes]:
    for number in range(32):
        pod = PodUsage(
            namespace="default",
            name="p1",
            uid="u-p1",
            usage={"cpu": 10 * number, "memory": 2**20},
            priority_class="koord-prod",
        )
        sample = NodeUsage(
            cluster=CLUSTER,
            node=f"n{number % 2}",
            sampled_at_ms=NOW_MS + 20_000 * number,
            usage={"cpu": 100 * number, "memory": 2**30},
            pods=(pod,),
        )
        yield encode(sample) if number != 7 else b"not json"


# --- lines --------------------------------------------------------------------------------------


def _numbered(messages: Iterable[tuple[str, bytes]]) -> list[InputRecord]:
    ends: dict[str, int] = {}
    records = []
    for number, (topic, value) in enumerate(messages):
        key = str(PARTITION) if topic == "clock" else CLUSTER
        if topic == "node-usage":
            key = f"{CLUSTER}/n{number % 2}"
        offset = ends.get(topic, 0)
        ends[topic] = offset + 1
        at_ms = NOW_MS + 3_600_000
        records.append(InputRecord(topic, PARTITION, offset, key.encode(), value, at_ms))
    return records


def _batches(records: Sequence[InputRecord]) -> Iterator[Sequence[InputRecord]]:
    for first in range(0, len(records), BATCH_RECORDS):
        yield records[first : first + BATCH_RECORDS]


def _of_input(record: InputRecord) -> Line:
    line = _line("input", record.topic, (record.key or b"").decode(), record.value)
    return {**line, "offset": record.offset, "timestamp_ms": record.timestamp_ms}


def _of_output(record: OutputRecord) -> Line:
    return _line("output", record.topic, record.key, record.value)


def _of_row(row: RowChange) -> Line:
    return {
        **_line("row", f"{APP_ID}-{row.table}-changelog", row.key, row.value),
        "table": row.table,
    }


def _line(kind: str, topic: str, key: str, value: bytes | None) -> Line:
    return {"kind": kind, "topic": topic, "key": key, "value": value and value.decode()}


if __name__ == "__main__":
    sys.exit(main())
