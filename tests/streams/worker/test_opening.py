"""Where a partition's journal is gone on from, and when it cannot be."""

import pytest

from schemas.codec import encode
from schemas.rows import JournalPositionRow
from streams.stage.journal import PLACES, Place
from streams.stage.records import DamagedTable
from streams.worker.opening import Opening

_IDS = {"journal": "J1", "loadstream-nodes-changelog": "N1"}


def _reached(journal_id: str | None) -> dict[str, bytes]:
    row = JournalPositionRow(partition=3, epoch=7, sequence=5, offset=20, journal_id=journal_id)
    return {"3": encode(row)}


def _opened(ids: dict[str, str], offset: int = 4) -> dict[str, bytes]:
    change = Opening(3, {}, ids).row(offset)
    assert (change.table, change.key) == (PLACES, "3/opened")
    assert change.value is not None
    return {"3/opened": change.value}


@pytest.mark.parametrize("known", [None, "J1"])
@pytest.mark.parametrize("ids", [{}, _IDS])
def test_the_place_of_the_rows_counts_where_the_journal_is_the_same_or_nothing_is_known(
    known: str | None, ids: dict[str, str]
) -> None:
    assert Opening(3, _reached(known), ids).known(30) == Place(7, 5, 20)


def test_a_partition_without_rows_reads_the_journal_from_its_beginning() -> None:
    opening = Opening(3, {}, _IDS)
    assert opening.known(0) == Place()
    assert opening.is_news


def test_a_journal_that_was_made_again_counts_from_the_opening_of_who_found_it_first() -> None:
    now = {**_IDS, "journal": "J2"}
    first = Opening(3, {**_reached("J1"), **_opened(_IDS)}, now)
    assert first.is_news
    assert first.known(9) == Place(sequence=5, offset=8)
    # Its owner died before any row was written; what it had applied is redone.
    second = Opening(3, {**_reached("J1"), **_opened(now, 9)}, now)
    assert not second.is_news
    assert second.known(31) == Place(sequence=5, offset=8)
    third = Opening(3, {**_reached("J2"), **_opened(now, 9)}, now)
    assert third.known(40) == Place(7, 5, 20)


def test_a_changelog_that_was_made_again_is_named_with_what_to_do() -> None:
    now = {**_IDS, "loadstream-nodes-changelog": "N2"}
    with pytest.raises(DamagedTable, match=r"loadstream-nodes-changelog: deleted .* the journal"):
        Opening(3, _opened(_IDS), now)


def test_a_table_that_a_later_version_adds_is_news_and_no_damage() -> None:
    opening = Opening(3, _opened(_IDS), {**_IDS, "loadstream-new-changelog": "X"})
    assert opening.is_news
