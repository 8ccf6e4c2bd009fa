"""Windows from which no worker starts are mended: they begin anew where they had come to."""

from collections.abc import Callable

import pytest

from streams.aggregate.mending import mend
from streams.stage.records import DamagedTable
from tests.streams.aggregate.builders import MINUTE, SECOND, T0, Log, pod, sample
from tests.streams.aggregate.content import content
from tests.streams.aggregate.harness import Run, Table, first_key, metrics, stage, store
from tests.streams.aggregate.test_policies import SHORT


def _history() -> tuple[Log, Table]:
    run = Run()
    for at in range(0, 60, 10):
        two = (sample(T0 + at * SECOND, node=n, pods=[pod("p", 1)]) for n in ("a", "b"))
        run.apply(run.log.add(*two))
    return run.log, run.table


def _without(kind: str) -> Callable[[Table], None]:
    def damage(table: Table) -> None:
        del table[first_key(table, kind)]

    return damage


def _garbled(kind: str) -> Callable[[Table], None]:
    def damage(table: Table) -> None:
        table[first_key(table, kind)] = b"\0garbage"

    return damage


def test_nothing_is_lost_where_nothing_is_damaged() -> None:
    _, table = _history()
    assert mend(0, table) == (table, [])
    assert mend(0, {}) == ({}, [])


@pytest.mark.parametrize(
    "damage", [_without("samples"), _without("node"), _garbled("pods"), _garbled("node")]
)
def test_windows_begin_anew_after_the_record_that_was_applied_last(
    damage: Callable[[Table], None],
) -> None:
    log, table = _history()
    damage(table)
    with pytest.raises(DamagedTable, match="`loadstream mend`"):
        stage(table)
    kept, lost = mend(0, table)
    assert "the windows of 2 nodes, which begin anew with the sample after offset 11" in lost
    mended = stage(kept)
    assert mended.positions == {"node-usage": 11}
    result = mended.apply(log.records + log.add(sample(T0 + MINUTE, node="a")))
    assert metrics(result.outputs) == []
    assert set(mended.state.nodes) == {"c/a"}
    store(kept, result.rows)
    assert content(stage(kept)) == content(mended)


def test_a_collect_policy_is_kept() -> None:
    log, table = _history()
    subject = stage(table)
    store(table, subject.apply([log.add_policy(SHORT)]).rows)
    _without("samples")(table)
    kept, _ = mend(0, table)
    mended = stage(kept)
    assert mended.state.policies.of("c") == subject.state.policies.of("c")
    assert mended.state.policies.of("c") != stage().state.policies.of("c")


@pytest.mark.parametrize("damage", [_without("progress"), _garbled("progress")])
def test_without_progress_the_input_is_read_from_its_first_record_on(
    damage: Callable[[Table], None],
) -> None:
    log, table = _history()
    damage(table)
    kept, lost = mend(0, table)
    assert kept == {}
    assert lost[-1] == "the windows of all nodes; node-usage is read from its first record on"
    fresh = stage(kept)
    fresh.apply(log.records)
    assert set(fresh.state.nodes) == {"c/a", "c/b"}
