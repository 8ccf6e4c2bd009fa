"""The verdict on a run, from the records in Kafka after it.

For each partition the recorded inputs are folded, in the journal's order, through a stage that starts
empty and never stops. The outputs of a worker that was killed repeatedly must be equal, byte for byte: the
journal's outputs and rows, the published decisions and dead letters, and the tables. `capacity` judges
whether there was room for each decision, `windows` the usage samples, `evictions` the evictions.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import DeadLetter, restore_record
from schemas.messages.decisions import PlacementDecision
from schemas.messages.usage import CollectPolicyRecord
from schemas.storage.rows import JournalPositionRow
from schemas.storage.tables import CLUSTER_TABLES, POSITION, row_key
from schemas.topics.catalog import CLUSTER_INPUTS
from schemas.topics.codec import decode, decode_as
from streams.aggregate.intake import INPUT as USAGE
from streams.replay.recorded import NotReplayable, Recording
from streams.replay.report import ReplayResult, format_lines
from streams.replay.verify import Verification
from streams.stage import journal
from streams.stage.packing import apply_changes
from streams.stage.records import InputRecord, OutputRecord, RowChange
from tests.chaos import evictions, windows
from tests.chaos.capacity import Capacity
from tests.chaos.history import OUTPUTS, SAID, History, changelog, rows_of
from tests.streams.journaled import Tail, read_tail

#: Topic, key and value.
Published = tuple[str, bytes, bytes]

_DECISIONS = "placement-decisions"
#: Problems of one kind that are reported; further ones are only counted.
_REPORTED_MAX = 5


@dataclass
class Verdict:
    """Problems, and how much was checked."""

    problems: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    fullest_percent: int = 0
    """Most CPU of a node that was taken, of what it has: near 100, or over-reservation was not tried."""

    def say(self, problems: Iterable[str]) -> None:
        """Add problems of one kind."""
        messages = list(problems)
        self.problems += messages[:_REPORTED_MAX]
        if len(messages) > _REPORTED_MAX:
            self.problems.append(f"... and {len(messages) - _REPORTED_MAX} more like these")


class _Inputs:
    """The input topics of one partition, as a replay reads them."""

    def __init__(self, history: History, partition: int) -> None:
        self._ahead = {topic: deque(history.of(topic, partition)) for topic in CLUSTER_INPUTS}

    def read_through(self, topic: str, last_offset: int) -> Iterator[InputRecord]:
        """Yield the next records up to an offset."""
        ahead = self._ahead[topic]
        while ahead and ahead[0].offset <= last_offset:
            yield ahead.popleft()

    def list_remaining(self) -> Iterator[str]:
        """Topics with records that were not applied. The clock may end in ticks that came too late."""
        for topic, ahead in self._ahead.items():
            if ahead and topic != "clock":
                yield f"{topic}: {len(ahead)} records from offset {ahead[0].offset} were not applied"


def judge(history: History) -> Verdict:
    """Judge a run."""
    verdict = Verdict()
    _judge_journal(history, verdict)
    verdict.say(_foreign(history))
    comparison = windows.look(history)
    verdict.say(comparison.outputs)
    verdict.say(comparison.rows)
    verdict.figures.update(comparison.figures)
    moved = evictions.look(history)
    for problems in moved.problems:
        verdict.say(problems)
    verdict.figures.update(moved.figures)
    return verdict


def _judge_journal(history: History, verdict: Verdict) -> None:
    recorded: dict[Published, list[OutputRecord]] = defaultdict(list)
    for partition in range(history.partitions):
        try:
            outputs = _judge_partition(history, partition, verdict)
        except (journal.JournalDamaged, NotReplayable) as error:
            verdict.say([f"partition {partition}: {error}"])
            continue
        for out in outputs:
            recorded[out.topic, out.key.encode(), out.value].append(out)
    verdict.say(_published(history, recorded, verdict))


def _judge_partition(history: History, partition: int, verdict: Verdict) -> list[OutputRecord]:
    """Judge one partition; return the outputs in its journal."""
    entries = [(record.offset, record.value) for record in history.of(journal.TOPIC, partition)]
    tail = read_tail(journal.JournalReader(journal.JournalPosition(), partition), entries)
    inputs = _Inputs(history, partition)
    verification = Verification(partition, history.partitions)
    difference = verification.verify(Recording(partition, entries, inputs))
    summary = verification.summary
    verdict.figures.update(batches=summary.batches, records=summary.inputs)
    if difference is not None:
        verdict.say(format_lines(ReplayResult(partition, summary, difference)))
    else:
        verdict.say(f"partition {partition}, {problem}" for problem in inputs.list_remaining())
    verdict.say(_tables(history, partition, tail))
    verdict.say(_order(history, partition, tail.outputs))
    capacity = Capacity(partition, history.partitions)
    verdict.say(capacity.follow(_applied(history, partition, entries)))
    verdict.say(capacity.missing())
    verdict.figures.update(capacity.figures)
    verdict.fullest_percent = max(verdict.fullest_percent, capacity.fullest_percent)
    return tail.outputs


def _applied(
    history: History, partition: int, entries: list[tuple[int, bytes | None]]
) -> Iterator[InputRecord]:
    """Yield all inputs in the order applied."""
    inputs = _Inputs(history, partition)
    reader = journal.JournalReader(journal.JournalPosition(), partition)
    for offset, value in entries:
        batch = reader.feed(offset, value)
        for run in batch.inputs if isinstance(batch, journal.JournalBatch) else ():
            for record in inputs.read_through(run.topic, run.last_offset):
                yield replace(record, refused_at_ms=run.refused_at_ms)


# --- tables and topics --------------------------------------------------------------------------


def _tables(history: History, partition: int, tail: Tail) -> Iterator[str]:
    """Yield differences between changelogs and the journal's rows, which are equal after a clean stop."""
    written: dict[str, bytes] = {}
    apply_changes(written, (RowChange(key, value) for key, value in tail.rows.items()))
    rows: dict[str, bytes] = {}
    for table in CLUSTER_TABLES:
        rows |= rows_of(history.of(changelog(table), partition))
    position = rows.pop(row_key(partition, "", POSITION), None)
    for key in sorted(rows.keys() | written.keys()):
        if rows.get(key) != written.get(key):
            yield f"row {key}: changelog {rows.get(key)!r}, journal {written.get(key)!r}"
    if position is not None:
        row = decode_as(JournalPositionRow, position)
        if isinstance(row, Refusal) or row.sequence != tail.position.sequence:
            yield f"journal position: {position!r}, the journal ends at {tail.position}"


def _order(history: History, partition: int, outputs: list[OutputRecord]) -> Iterator[str]:
    """Yield topics whose first copies are not published in the journal's order."""
    for topic in SAID:
        first = dict.fromkeys(record.value for record in history.of(topic, partition))
        expected = [
            output.value
            for output in outputs
            if output.topic == topic and (output.value in first or not _gone(history, output))
        ]
        if list(first) != list(dict.fromkeys(expected)):
            yield f"{topic}/{partition}: first copies are not in the journal's order"


def _gone(history: History, output: OutputRecord) -> bool:
    """Whether the record may have been published to a topic that was deleted later."""
    again_ms = history.changed.again_at_ms.get(output.topic)
    if again_ms is None:
        return False
    letter = decode(output.topic, output.value)
    at_ms = letter.timestamp_ms if isinstance(letter, DeadLetter) else output.timestamp_ms
    return (at_ms or 0) <= again_ms


def _published(
    history: History, recorded: dict[Published, list[OutputRecord]], verdict: Verdict
) -> Iterator[str]:
    """Yield outputs that were published or recorded, but not both."""
    published = Counter(
        (topic, record.key or b"", record.value or b"")
        for topic in (*OUTPUTS, USAGE)
        for partition in range(history.partitions)
        for record in history.of(topic, partition)
        if _of_cluster_stage(topic, record)
    )
    verdict.figures["outputs"] = sum(map(len, recorded.values()))
    verdict.figures["published again"] = sum(published.values()) - len(published)
    for topic, key, value in published.keys() - recorded.keys():
        yield f"{topic}: published and not in the journal: {key!r} {value!r}"
    for output in recorded.keys() - published.keys():
        if not all(_gone(history, record) for record in recorded[output]):
            topic, key, value = output
            yield f"{topic}: in the journal and not published: {key!r} {value!r}"
    for (_, key, _), outputs in recorded.items():
        if len(outputs) > 1:
            yield f"{key!r}: recorded {len(outputs)} times"
    by_id: dict[str, set[bytes]] = defaultdict(set)
    for topic, _, value in published:
        if topic == _DECISIONS:
            decision = decode_as(PlacementDecision, value)
            if not isinstance(decision, Refusal):
                by_id[decision.decision_id].add(value)
    yield from (f"decision {id_} has two contents" for id_, all_ in by_id.items() if len(all_) > 1)


def _of_cluster_stage(topic: str, record: InputRecord) -> bool:
    """Whether the cluster stage wrote the record: not all dead letters are its own."""
    if topic == USAGE:
        return isinstance(decode(USAGE, record.value), CollectPolicyRecord)
    return topic != "dead-letters" or record.key not in (b"node-usage", journal.TOPIC.encode())


def _foreign(history: History) -> Iterator[str]:
    """Yield foreign records of journal and clock that are not whole in dead letters."""
    letters = {
        (letter.topic, letter.partition, letter.offset): letter
        for partition in range(history.partitions)
        for record in history.of("dead-letters", partition)
        if isinstance(letter := decode("dead-letters", record.value), DeadLetter)
    }
    buried = Counter(
        (letter.partition, restore_record(letter)[1] or b"")
        for letter in letters.values()
        if letter.topic == journal.TOPIC
    )
    for partition, value in (Counter(history.changed.foreign) - buried).elements():
        yield f"partition {partition}: no dead letter of {value!r}, which was put into the journal"
    ticks = sum((dead.topic, dead.category) == ("clock", "future") for dead in letters.values())
    if ticks != history.changed.ticks:
        yield f"{history.changed.ticks} ticks of next year were written, {ticks} were refused"
