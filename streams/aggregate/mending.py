"""What can be kept of the windows of a partition from which no worker starts.

How far the input was applied is kept, so that nothing is reported twice, and collect policies as
far as they can be read: one that is lost comes again within an hour. The windows begin anew, all of
them: a row has samples of many nodes, so nothing shows which nodes a missing one had, and
percentiles over a window with holes would look like any others. Pure: rows in, rows and sentences
out.
"""

from collections.abc import Mapping

from schemas.codec import decode_as, encode
from schemas.percentiles import NodePercentilesRow, Progress
from schemas.refusals import Refusal
from streams.aggregate.collect import Collecting
from streams.aggregate.restore import restore
from streams.aggregate.rows import key
from streams.stage.records import DamagedTable


def mend(partition: int, rows: Mapping[str, bytes]) -> tuple[dict[str, bytes], list[str]]:
    """Rows that a worker starts from, and what is lost; no sentences: the rows are as they should be."""
    try:
        restore(partition, rows, Collecting())
    except DamagedTable as damaged:
        lost = [f"table {damaged.table}, row {damaged.row}: {damaged.problem}"]
    else:
        return dict(rows), []
    read = {name: row for name, value in rows.items() if (row := _read(value)) is not None}
    known = [row.progress for row in read.values() if row.progress is not None]
    if not known:
        return {}, [*lost, "the windows of all nodes; node-usage is read from its first record on"]
    last = max(known, key=lambda progress: progress.epoch)
    policies = {
        name: rows[name]
        for name, row in read.items()
        if row.policy is not None and row.policy.offset <= last.position and _holds(name, last)
    }
    progress = Progress(
        epoch=last.epoch,
        position=last.position,
        samples_sequence=last.samples_sequence,
        pods_sequence=last.pods_sequence,
        heard_ms=last.heard_ms,
        topic_id=last.topic_id,
        policies_sequence=last.policies_sequence,
        policies=len(policies),
    )
    row = NodePercentilesRow(kind="progress", progress=progress)
    return {key(partition, "progress", last.epoch): encode(row), **policies}, [
        *lost,
        f"the windows of {last.nodes} nodes, which begin anew with the sample after offset {last.position}",
    ]


def _holds(name: str, last: Progress) -> bool:
    """Whether a policy's row is of a batch that was written whole."""
    sequence = name.rpartition("/")[2]
    return sequence.isdecimal() and int(sequence) <= last.policies_sequence


def _read(value: bytes) -> NodePercentilesRow | None:
    row = decode_as(NodePercentilesRow, value, bytes_max=None)
    return None if isinstance(row, Refusal) else row
