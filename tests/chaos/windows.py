"""The verdict on the aggregate stage, compared with a fold of the recorded samples without a stop.

The published outputs must be exactly those of the fold. Copies are allowed, and first copies are in the order of
their nodes' samples. The rows of the table depend on batches and restarts, so they are judged by their effect:
a stage that is restored from them continues like the fold.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from schemas.messages.dead_letters import DeadLetter
from schemas.messages.metrics import NodeMetric
from schemas.messages.usage import NodeUsage
from schemas.storage.tables import WINDOWS, row_key
from schemas.topics.catalog import node_key
from schemas.topics.codec import decode_as, encode
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.aggregate.intake import INPUT, OUTPUT
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.stage.records import DamagedTable, InputRecord, OutputRecord
from tests.chaos.history import History, changelog, rows_of

Published = tuple[str, bytes]
"""Key and value."""

_LETTERS = "dead-letters"
#: A sample this much later than the newest sample of its node causes a report.
_REPORT_MS = 60_000


@dataclass
class Windows:
    """Problems with windows, and how much was checked."""

    outputs: list[str] = field(default_factory=list)
    """Differences between what was published and what the samples give."""
    rows: list[str] = field(default_factory=list)
    """Differences between the table and what the samples give."""
    figures: Counter[str] = field(default_factory=Counter)


def look(history: History) -> Windows:
    """Check all partitions."""
    windows = Windows()
    expected: list[OutputRecord] = []
    nodes: set[str] = set()
    for partition in range(history.partitions):
        fold = _stage(history, partition, {})
        records = history.of(INPUT, partition)
        result = fold.apply(records)
        expected += [*result.outputs, *result.dead_letters]
        nodes |= fold.state.nodes.keys()
        windows.figures["samples"] += len(records)
        windows.rows += _rows(history, partition, fold)
    metrics = [output for output in expected if output.topic == OUTPUT]
    letters = [output for output in expected if output.topic == _LETTERS]
    windows.figures["metrics of samples"] = len(metrics)
    windows.figures["samples refused"] = len(letters)
    published = list(_metrics(history, nodes))
    windows.figures["metrics published again"] = len(published) - len(set(published))
    windows.outputs += _differences(OUTPUT, metrics, published)
    published_letters = list(_letters(history))
    if _LETTERS in history.changed.again_at_ms:  # it is not known which letters are gone
        letters = [letter for letter in letters if (letter.key, letter.value) in published_letters]
    windows.outputs += _differences(_LETTERS, letters, published_letters)
    windows.outputs += _order(metrics, published)
    return windows


def _stage(history: History, partition: int, rows: dict[str, bytes]) -> AggregateStage:
    state = restore(partition, rows, PoolRules())
    return AggregateStage(state, history.partitions, AggregateLimits())


def _metrics(history: History, nodes: set[str]) -> Iterator[Published]:
    """Yield metrics of nodes with samples; the load itself sends those of other nodes."""
    for partition in range(history.partitions):
        for record in history.of(OUTPUT, partition):
            metric = decode_as(NodeMetric, record.value)
            if isinstance(metric, NodeMetric) and node_key(metric.cluster, metric.node) in nodes:
                yield (record.key or b"").decode(), record.value or b""


def _letters(history: History) -> Iterator[Published]:
    for partition in range(history.partitions):
        for record in history.of(_LETTERS, partition):
            letter = decode_as(DeadLetter, record.value)
            if isinstance(letter, DeadLetter) and letter.topic == INPUT:
                yield (record.key or b"").decode(), record.value or b""


def _differences(
    topic: str, expected: list[OutputRecord], published: list[Published]
) -> Iterator[str]:
    expected_pairs = {(output.key, output.value) for output in expected}
    for key, value in sorted(set(published) - expected_pairs):
        yield f"{topic}: published, and not what the samples give: {key!r} {value!r}"
    for key, value in sorted(expected_pairs - set(published)):
        yield f"{topic}: the samples give it, and it was not published: {key!r} {value!r}"


def _order(metrics: list[OutputRecord], published: list[Published]) -> Iterator[str]:
    """Yield nodes whose first copies are not in the order of their samples."""
    expected_values: dict[str, list[bytes]] = defaultdict(list)
    published_values: dict[str, list[bytes]] = defaultdict(list)
    for value in (metric.value for metric in metrics):
        expected_values[_node(value)].append(value)
    for _, value in dict.fromkeys(published):
        published_values[_node(value)].append(value)
    for node, values in expected_values.items():
        if published_values[node] != values:
            yield f"{OUTPUT}, node {node}: first copies are not in the order of its samples"


def _node(value: bytes) -> str:
    metric = decode_as(NodeMetric, value)
    assert isinstance(metric, NodeMetric)
    return node_key(metric.cluster, metric.node)


def _rows(history: History, partition: int, fold: AggregateStage) -> Iterator[str]:
    """Yield differences between the fold and a stage that is restored from the rows."""
    rows = rows_of(history.of(changelog(WINDOWS), partition))
    rows.pop(row_key(partition, "", "topics"), None)  # of the worker
    try:
        restored = _stage(history, partition, rows)
    except DamagedTable as error:
        yield f"partition {partition}: {error}"
        return
    if restored.positions != fold.positions:
        yield (
            f"table {WINDOWS}, partition {partition}: applied up to {dict(restored.positions)}, "
            f"the samples end at {dict(fold.positions)}"
        )
        return
    if restored.state.nodes.keys() != fold.state.nodes.keys():
        yield (
            f"table {WINDOWS}, partition {partition}: nodes {sorted(restored.state.nodes)}, the samples "
            f"are of {sorted(fold.state.nodes)}"
        )
        return
    for probe in _probes(partition, fold):
        expected, outputs = fold.apply([probe]).outputs, restored.apply([probe]).outputs
        if not expected or expected != outputs:
            yield (
                f"table {WINDOWS}, partition {partition}: the next sample {probe.value!r} comes to "
                f"{outputs}, after all samples to {expected}"
            )


def _probes(partition: int, fold: AggregateStage) -> list[InputRecord]:
    """Return for each node a sample that causes a report over all that its windows hold."""
    position = fold.positions.get(INPUT, -1)
    probes = []
    for number, (key, node) in enumerate(sorted(fold.state.nodes.items()), start=1):
        cluster, _, name = key.partition("/")
        at_ms = int(node.samples.times[-1]) + _REPORT_MS
        sample = NodeUsage(
            cluster=cluster, node=name, sampled_at_ms=at_ms, usage={"cpu": 1, "memory": 1}
        )
        probes.append(
            InputRecord(INPUT, partition, position + number, key.encode(), encode(sample), at_ms)
        )
    return probes
