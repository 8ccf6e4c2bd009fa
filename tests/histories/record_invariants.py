"""What must hold of each record that a stage applied, and of the outputs that it caused."""

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.messages.dead_letters import DeadLetter, restore_record
from schemas.messages.metrics import NodeMetric
from schemas.storage.tables import kind_of_key
from schemas.topics.catalog import key_of
from schemas.topics.codec import decode, encode
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from tests.histories.failure import Failure, require
from tests.histories.references import Applied
from tests.schemas.messages.test_dead_letters import join_parts

#: Rows that a refused record may change, since they count what was read.
_COUNTING_ROWS = {"partitions", "clusters"}
#: Results of a record that the aggregate stage used, or knew already.
_TAKEN = ("taken", "taken_late", "duplicate", "redelivered", "policy_adopted", "policy_repeated")


def check_dead_letters(applied: Applied) -> None:
    """A refused record is buried whole, and no other record is."""
    letters = applied.result.dead_letters
    require(
        bool(letters) == bool(applied.counts.refused), "a record is refused or buried, not both"
    )
    if not letters:
        return
    parts = [decode(letter.topic, letter.value) for letter in letters]
    try:
        letter = join_parts([part for part in parts if isinstance(part, DeadLetter)])
        found = letter.topic, letter.partition, letter.offset, *restore_record(letter)
    except ValueError as error:
        raise Failure("a dead letter cannot be put together", str(error)) from error
    record = applied.record
    expected = record.topic, record.partition, record.offset, record.key, record.value
    require(found == expected, "a dead letter holds another record")


def check_defects(applied: Applied) -> None:
    """No record is buried because of a defect of the stage."""
    for (topic, category), _ in applied.counts.refused.items():
        require(category != "internal", f"a record of {topic} met a defect", applied.result)


def check_outputs(applied: Applied) -> None:
    """An output has the key of its message, and its reader understands what its writer meant."""
    for message, raw in zip(applied.outputs, applied.result.outputs, strict=True):
        require(len(raw.value) <= VALUE_BYTES_MAX, f"a record of {raw.topic} is too large")
        require(
            raw.topic == "node-usage" or raw.key == key_of(raw.topic, message),
            f"a key of {raw.topic} is wrong",
        )
        same = encode(message) == raw.value or raw.topic == "node-metrics"
        require(same, f"a record of {raw.topic} is read as another message", raw.value)


def check_valid(applied: Applied) -> None:
    """Of valid records, only these are refused: those that are late or reach a limit, and users'
    requests about what is not under way."""
    for topic, category in applied.counts.refused:
        expected = (
            topic == "node-usage" and category in ("late", "limit"),
            topic == "node-metrics" and category in ("future", "limit"),
            topic == "scheduling-requests" and category == "limit",
            topic == "migration-requests" and category == "invalid",
        )
        kind = f"a valid record of {topic} is refused: {category}"
        require(any(expected), kind, applied.result.dead_letters[0].value)


# --- the cluster stage ----------------------------------------------------------------------------------


def check_cluster_outcome(applied: Applied) -> None:
    """A record is applied or refused; a refused record causes nothing and changes no rows."""
    counts = applied.counts.results
    require(counts.total() == 1, "a record is counted twice or never", counts)
    if applied.outcome == "applied":
        return
    require(not applied.result.outputs, f"a record that is {applied.outcome} has outputs")
    kinds = {kind_of_key(row.key) for row in applied.result.rows}
    if applied.record.topic != "clock":
        require(kinds <= _COUNTING_ROWS, f"a record that is {applied.outcome} changes rows", kinds)


def check_clock(stage: ClusterStage, latest_tick_ms: int) -> None:
    """The time of the stage is that of the latest tick; it never goes back."""
    now_ms = stage.now_ms or 0
    require(now_ms == latest_tick_ms, "the time is not the latest tick", f"{now_ms}")


def check_as_of(applied: Applied) -> None:
    """An output names the offset of the record that caused it."""
    for message in applied.outputs:
        offsets = message.as_of.offsets if hasattr(message, "as_of") else None
        same = offsets is None or offsets.get(applied.record.topic) == applied.record.offset
        require(same, "an output does not name the record that caused it", message)


# --- the aggregate stage --------------------------------------------------------------------------------


def check_aggregate_outcome(stage: AggregateStage, applied: Applied) -> None:
    """A sample is taken, known already or refused; only a sample that is taken causes a metric."""
    counts = applied.counts.results
    taken, refused = sum(counts[word] for word in _TAKEN), bool(applied.counts.refused)
    require(taken <= 1 and bool(taken or refused), "a sample is counted twice or never", counts)
    # A sample may be taken while the metric that it completes is too large to be reported.
    reported = bool(counts["reported"] and counts["refused_limit"])
    require(not (taken and refused) or reported, "a sample is taken and refused", counts)
    if applied.outputs:
        require(counts["taken"] == 1, "a sample that is not taken causes a metric", counts)


def check_metric_time(stage: AggregateStage, applied: Applied) -> None:
    """A metric is as old as the newest sample of its node."""
    for metric in applied.outputs:
        assert isinstance(metric, NodeMetric)
        node = stage.state.nodes.get(f"{metric.cluster}/{metric.node}")
        is_newest = node is None or metric.updated_at_ms == node.newest_ms
        require(is_newest, "a metric is not as old as its newest sample", metric)


ALL = (check_dead_letters, check_defects, check_outputs)
AGGREGATE = (check_aggregate_outcome, check_metric_time)
