"""The start of a replay depends on the retained records."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from streams.replay import start
from streams.replay.recorded import NotReplayable
from streams.replay.start import choose_checkpoint, find_oldest_checkpoint
from tests.streams.builders import at, node, request, tick
from tests.streams.journaled import Journaled
from tests.streams.world import Log

_Record = tuple[int, bytes | None]


@dataclass
class Broker:
    """Topics of partition 0 in memory; their first records may be deleted."""

    topics: dict[str, list[bytes | None]]
    first: dict[str, int] = field(default_factory=dict)
    read_pieces: int = 0
    """Pieces of checkpoints that were read."""

    def read_extent(self, topic: str) -> tuple[int, int]:
        """First and next offset."""
        return self.first.get(topic, 0), len(self.topics.get(topic, []))

    def read(self, topic: str, first_offset: int, last_offset: int) -> Iterator[_Record]:
        """The remaining records."""
        low = max(first_offset, self.first.get(topic, 0))
        for offset, value in enumerate(self.topics.get(topic, [])):
            if low <= offset <= last_offset:
                self.read_pieces += topic == "checkpoints"
                yield offset, value


def _history(minutes: int = 10, every: int = 3) -> tuple[Broker, list[int]]:
    """A batch a minute, and the journal offsets of checkpoints after every few of them."""
    log, history = Log(), Journaled()
    checkpoints: list[bytes | None] = []
    offsets = []
    history.apply([log.record(tick()), log.record(node())])
    for minute in range(1, minutes):
        history.apply([log.record(tick(minute * 60)), log.record(request(f"p{minute}"))])
        if minute % every == 0:
            checkpoints += history.pieces(100_000)
            offsets.append(history.checkpoint.position.offset)
    topics: dict[str, list[bytes | None]] = {"journal": [*history.journal]}
    topics["checkpoints"] = checkpoints
    for record in history.topics:
        topics.setdefault(record.topic, []).append(record.value)
    return Broker(topics), offsets


def _begun_at(broker: Broker, from_ms: int | None = None) -> int | None:
    beginning = choose_checkpoint(broker, 0, from_ms)
    return None if beginning is None else beginning.position.offset


def test_a_complete_journal_is_replayed_from_its_first_batch() -> None:
    broker, _ = _history()
    assert _begun_at(broker) is None


def test_without_its_beginning_a_journal_is_replayed_from_the_first_checkpoint() -> None:
    broker, offsets = _history()
    broker.first["journal"] = 2
    assert _begun_at(broker) == offsets[0]
    broker.first["journal"] = offsets[0]
    assert _begun_at(broker) == offsets[0]
    broker.first["journal"] = offsets[0] + 1
    assert _begun_at(broker) == offsets[1]
    assert _begun_at(broker, at(100 * 60)) == offsets[2]


def test_deleted_inputs_are_skipped_by_the_oldest_usable_checkpoint() -> None:
    broker, offsets = _history()
    broker.first["clock"] = 2
    checkpoint = find_oldest_checkpoint(broker, 0)
    assert checkpoint is not None
    assert checkpoint.position.offset == offsets[0]
    broker.first["checkpoints"] = len(broker.topics["checkpoints"])
    assert find_oldest_checkpoint(broker, 0) is None


def test_a_checkpoint_before_deleted_inputs_is_not_used() -> None:
    broker, offsets = _history()
    broker.first |= {"journal": 2, "clock": 4}
    assert _begun_at(broker) == offsets[0], "all that was applied after it is there"
    broker.first |= {"clock": 5}
    assert _begun_at(broker) == offsets[1]
    broker.first |= {"clock": 10}
    assert _begun_at(broker) == offsets[2]


def test_a_checkpoint_of_another_journal_is_not_used() -> None:
    broker, offsets = _history()
    broker.first["journal"] = 2
    broker.topics["journal"][offsets[0]] = broker.topics["journal"][offsets[0] + 1]
    assert _begun_at(broker) == offsets[1]
    del broker.topics["journal"][offsets[2] :]
    broker.topics["journal"][offsets[1]] = b"unreadable"
    with pytest.raises(NotReplayable, match="has no complete checkpoint"):
        choose_checkpoint(broker, 0, None)


def test_a_reset_partition_is_replayed_only_from_a_checkpoint() -> None:
    log, again = Log(), Journaled(reset=True)
    again.apply([log.record(tick()), log.record(node())])
    again.apply([log.record(tick(60)), log.record(request("p1"))])
    topics: dict[str, list[bytes | None]] = {"journal": [b"stray", *again.journal]}
    with pytest.raises(NotReplayable, match="the partition was reset"):
        choose_checkpoint(Broker(topics), 0, None)
    topics["journal"] = [*again.journal]
    checkpoint = again.checkpoint
    topics["checkpoints"] = [*again.pieces()]
    assert _begun_at(Broker(topics)) == checkpoint.position.offset


def test_the_error_says_what_is_missing_and_since_when_a_replay_is_possible() -> None:
    broker, _ = _history()
    broker.first["journal"] = 2
    with pytest.raises(NotReplayable) as caught:
        choose_checkpoint(broker, 0, at(120))
    words = str(caught.value)
    assert (
        "journal offsets 0 to 1 are missing, and there is no usable checkpoint before 2025-10-09T08:55:20"
        in words
    )
    assert "possible from 2025-10-09T08:56:20.000Z on: choose a later time, or no time" in words
    broker.topics["checkpoints"] = [b"", *broker.topics["checkpoints"][:1]]
    for from_ms in (None, at(120)):
        with pytest.raises(NotReplayable) as caught:
            choose_checkpoint(broker, 0, from_ms)
        words = str(caught.value)
        assert "has no complete checkpoint" in words
        assert "LOADSTREAM_WORKER_CHECKPOINT_INTERVAL_S" in words
        assert "retention.ms" in words


def test_only_checkpoints_around_the_requested_one_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(start, "_FIRST_READ_PIECES", 8)
    broker, offsets = _history(200, every=1)
    broker.first["journal"] = 2
    assert _begun_at(broker) == offsets[0]
    assert broker.read_pieces < 10
    broker.read_pieces = 0
    assert _begun_at(broker, at(100 * 60)) == offsets[98]
    assert broker.read_pieces < 40
