"""A partition that no worker starts from is mended: what can be kept is, and the rest is named."""

from collections.abc import Callable, Iterable

import pytest

from schemas.codec import encode
from schemas.rows import JournalPositionRow
from streams.cluster.stage import ClusterStage
from streams.replay.mending import Mended, Rows, known_place, mend
from streams.stage import journal
from streams.stage.journal import PLACES, JournalDamaged
from streams.stage.packing import put
from streams.stage.records import DamagedTable
from streams.worker.opening import Opening
from tests.streams.cluster.builders import lifecycle, node, pod, policy_record, request, tick
from tests.streams.cluster.harness import Log

Entries = list[tuple[int, bytes | None]]


class History:
    """Rows as they were written in the middle, and the whole journal."""

    def __init__(self) -> None:
        log = Log()
        steps: list[list[object]] = [
            [tick(), policy_record("reservationSeconds: 9"), node("a"), node("b")],
            [lifecycle("running", pod("q"), "a"), request("p")],
            [lifecycle("running", pod("r"), "b")],
            [request(pod("large", cpu="99"))],
            [lifecycle("running", pod("s"), "a")],
        ]
        self.journal: list[bytes | None] = [journal.opening(0)]
        self.rows: Rows = {}
        stage, place = ClusterStage(0, 1), journal.Place(0, -1, 0)
        for number, messages in enumerate(steps):
            records = [log.message(message) for message in messages]
            result = stage.apply(records)
            self.journal += journal.batch(0, place, records, result)
            place = journal.Place(0, place.sequence + 1, len(self.journal) - 1)
            if number < 2:
                put(self.rows, result.rows)
                self._reflect(place)
        self.stage = stage

    def _reflect(self, place: journal.Place) -> None:
        self.rows[PLACES, "0"] = encode(
            JournalPositionRow(
                partition=0, epoch=place.epoch, sequence=place.sequence, offset=place.offset
            )
        )

    def entries(self) -> Entries:
        """What follows the rows."""
        return list(enumerate(self.journal))[known_place(0, self.rows).offset + 1 :]

    def mend(self, entries: Entries | None = None, end: int | None = None) -> Mended:
        """Mend what there is, and see that a worker starts from it."""
        found = self.entries() if entries is None else entries
        mended = mend(0, 1, self.rows, found, len(self.journal) if end is None else end)
        _starts(mended.rows)
        place = known_place(0, mended.rows)
        assert (
            journal.follow(place, [(place.offset + 1, journal.opening(0))]).place.epoch
            > place.offset
        )
        return mended


def _starts(rows: Rows) -> ClusterStage:
    stored = ((*place, value) for place, value in rows.items() if place[0] != PLACES)
    return ClusterStage.restored(0, 1, stored)


def _pods(rows: Rows) -> set[str]:
    return set(_starts(rows).clusters["test"].inventory.where)


def test_nothing_is_lost_where_nothing_is_damaged() -> None:
    history = History()
    mended = history.mend()
    assert (mended.lost, mended.redone) == ([], 3)
    assert _starts(mended.rows).positions == history.stage.positions
    assert _pods(mended.rows) == {"p", "q", "r", "s"}


def _overwrite(history: History) -> None:
    history.journal[4] = b'{"schema_version":2,"partition":0,"epoch":0,"sequence":3}\ngarbage'


def _garble(history: History) -> None:
    history.journal[4] = b"garbage"


def _cut(history: History) -> None:
    value = history.journal[4]
    assert value is not None
    history.journal[4] = value[:-3]


@pytest.mark.parametrize("damage", [_overwrite, _garble, _cut])
def test_batches_after_a_damaged_one_are_kept(damage: Callable[[History], None]) -> None:
    history = History()
    damage(history)
    with pytest.raises(JournalDamaged, match="`loadstream mend` shows"):
        journal.follow(known_place(0, history.rows), history.entries())
    mended = history.mend()
    assert mended.redone == 2
    assert any("3 to 3 are not there" in sentence for sentence in mended.lost)
    assert _pods(mended.rows) == {"p", "q", "r", "s"}
    assert "large" not in {
        each.request.pod.uid for each in _starts(mended.rows).clusters["test"].placement.pending
    }


def test_a_journal_whose_beginning_is_gone_is_gone_on_from() -> None:
    history = History()
    mended = history.mend(history.entries()[1:])
    assert "journal offsets 3 to 3 are gone" in mended.lost
    assert _pods(mended.rows) == {"p", "q", "s"}


def test_a_journal_that_was_made_again_is_gone_on_with() -> None:
    mended = History().mend([], end=1)
    assert mended.lost == [
        "the journal ends at offset 1, and the tables reflect it up to 2: what it held in between is gone"
    ]
    assert _pods(mended.rows) == {"p", "q"}


def test_a_worker_starts_beside_a_journal_that_was_made_again_and_is_empty() -> None:
    mended = History().mend([], end=0)
    assert _pods(mended.rows) == {"p", "q"}
    stored = {key: value for (table, key), value in mended.rows.items() if table == PLACES}
    first_opening = 0
    assert Opening(0, stored, {}).known(first_opening).offset < first_opening


def _without(rows: Rows, places: Iterable[tuple[str, str]]) -> Rows:
    return {place: value for place, value in rows.items() if place not in places}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("nodes", "0/test/b"), None),
        (("nodes", "0/test/b"), b"no JSON"),
        (("reserved_pods", "0/test/a"), b"{}"),
        (("reserved_pods", "0/test/b"), b"{}"),
        (("clusters", "0/test"), None),
        (("clusters", "0/test"), b"[]"),
        (("cluster_policies", "0/test/policy"), None),
        (("partitions", "0"), None),
        (("partitions", "0"), b"\0"),
        (("nodes", "0"), b"{}"),
        ((PLACES, "0"), b"{}"),
    ],
)
def test_a_row_that_is_gone_or_damaged_is_left_out(
    place: tuple[str, str], value: bytes | None
) -> None:
    history = History()
    history.rows = _without(history.mend().rows, [place])
    history.rows |= {} if value is None else {place: value}
    if place[0] != PLACES:
        with pytest.raises(DamagedTable, match="`loadstream mend`"):
            _starts(history.rows)
    mended = history.mend(entries=[] if place[0] != PLACES else None)
    assert bool(mended.lost) == (place[0] != PLACES)
    assert {"q"} <= _pods(mended.rows) or place[0] == "reserved_pods"
