"""The verdict on a run whose journal was deleted and made again: what can be said without the journal.

The partition goes on from its tables, so it must have applied every input, and the rows must be whole. Nothing
can be replayed before the next checkpoint.
"""

from collections import defaultdict
from collections.abc import Iterator

from schemas.codec import decode_as
from schemas.decisions import PlacementDecision
from schemas.refusals import Refusal
from schemas.topics import CLUSTER_INPUTS
from streams.cluster.stage import TABLES, ClusterStage
from streams.stage.records import DamagedTable
from tests.chaos.history import History, changelog, rows_of


def restored(history: History, partition: int) -> ClusterStage:
    """A stage from the changelogs; raises DamagedTable."""
    rows = [
        (table, key, value)
        for table in TABLES
        for key, value in rows_of(history.of(changelog(table), partition)).items()
    ]
    return ClusterStage.restored(partition, history.partitions, rows)


def look(history: History, now_ms: dict[int, int]) -> Iterator[str]:
    """What is wrong; notes the newest time of each partition."""
    for partition in range(history.partitions):
        try:
            stage = restored(history, partition)
        except DamagedTable as error:
            yield f"partition {partition}: {error}"
            continue
        now_ms[partition] = stage.now_ms or 0
        yield from _left(history, partition, stage)
        yield from _twice(history, partition)


def _left(history: History, partition: int, stage: ClusterStage) -> Iterator[str]:
    """Topics of which something was not applied. The clock ends in ticks that came too late."""
    for topic in CLUSTER_INPUTS:
        records = history.of(topic, partition)
        applied = stage.positions.get(topic, -1)
        if topic != "clock" and records and records[-1].offset != applied:
            yield (
                f"partition {partition}, {topic}: applied up to offset {applied}, the topic ends at "
                f"{records[-1].offset}"
            )


def _twice(history: History, partition: int) -> Iterator[str]:
    """Decisions with two contents."""
    contents: dict[str, set[bytes]] = defaultdict(set)
    for record in history.of("placement-decisions", partition):
        decision = decode_as(PlacementDecision, record.value)
        if not isinstance(decision, Refusal):
            contents[decision.decision_id].add(record.value or b"")
    for decision_id, values in contents.items():
        if len(values) > 1:
            yield f"decision {decision_id} has {len(values)} contents: {sorted(values)}"
