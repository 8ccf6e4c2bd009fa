"""A stage with what it has read and written, as the worker around it keeps them."""

from collections.abc import Iterable, Mapping, Sequence

from schemas.messages.dead_letters import DeadLetter
from schemas.messages.metrics import NodeMetric
from schemas.storage.tables import WINDOWS, kind_of_key, table_of_key
from schemas.topics.codec import decode, encode
from streams.aggregate.collect import AggregateLimits, PoolRules
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.stage.records import InputRecord, OutputRecord, RowChange, StageResult
from tests.streams.aggregate.builders import QUICK_COLLECTING, Log
from tests.streams.outputs import read_output

#: Rows of table `node_percentiles` by their keys.
Table = dict[str, bytes]


def stage(
    table: Mapping[str, bytes] | None = None,
    collecting: PoolRules = QUICK_COLLECTING,
    limits: AggregateLimits | None = None,
    partition: int = 0,
    partitions: int = 1,
) -> AggregateStage:
    """The stage of a partition, from the rows of a table."""
    state = restore(partition, table or {}, collecting)
    return AggregateStage(state, partitions, limits or AggregateLimits())


def store(table: Table, changes: Iterable[RowChange]) -> None:
    """Take row changes into a table."""
    for change in changes:
        assert table_of_key(change.key) == WINDOWS
        if change.value is None:
            table.pop(change.key, None)
        else:
            table[change.key] = change.value


def metrics(outputs: Iterable[OutputRecord]) -> list[NodeMetric]:
    """The metrics that a stage has emitted; each is a valid message under its cluster's key."""
    found = []
    for output in outputs:
        assert output.topic == "node-metrics"
        metric = read_output(output.topic, output.value)
        assert isinstance(metric, NodeMetric), metric
        assert output.key == metric.cluster
        found.append(metric)
    return found


def first_key(table: Table, kind: str) -> str:
    """Key of the first row of a kind."""
    return min(key for key in table if kind_of_key(key) == kind)


def emitted(result: StageResult) -> list[OutputRecord]:
    """What a batch says, metrics and dead letters."""
    return [*result.outputs, *result.dead_letters]


def letter(output: OutputRecord) -> DeadLetter:
    """A dead letter as its reader sees it."""
    assert output.topic == "dead-letters"
    found = decode("dead-letters", output.value)
    assert isinstance(found, DeadLetter), found
    assert output.key == found.topic == "node-usage"
    assert encode(found) == output.value
    return found


class Run:
    """A stage, its log and the table that it has written; the stage starts again when it is said."""

    def __init__(self, collecting: PoolRules = QUICK_COLLECTING) -> None:
        self.log = Log()
        self.table: Table = {}
        self._collecting = collecting
        self.stage = self.restarted()

    def restarted(self) -> AggregateStage:
        """A stage that is put together from the rows."""
        return stage(self.table, self._collecting)

    def restart(self) -> None:
        """Go on with such a stage."""
        self.stage = self.restarted()

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply records as one batch, and take its rows into the table."""
        result = self.stage.apply(records)
        store(self.table, result.rows)
        return result
