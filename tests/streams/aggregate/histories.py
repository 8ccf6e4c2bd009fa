"""Histories of a partition for property tests: what producers do to a log, good and bad.

A few nodes send samples mostly in order and now and then late, twice, from a clock that is wrong,
with other resources or other pods; among them are records that nobody can read.
"""

from itertools import pairwise
from random import Random
from typing import Any

import orjson
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from schemas.base.message import AMOUNT_MAX
from streams.stage.records import InputRecord
from tests.streams.builders import (
    SECOND,
    START_MS,
    collect_policy,
    collect_policy_record,
    pod_usage,
    sample,
)
from tests.streams.world import Log

NODES = ("n0", "n1")

#: Amounts far beyond those of real nodes: sums must not overflow.
_LARGE = (2**40, AMOUNT_MAX)
_RESOURCES = ("cpu", "cpu", "memory", "memory", "gpu", "disk")
_CLASSES = ("", "koord-prod", "koord-batch")
_SEEDS = st.integers(0, 2**16)


def _amount(chosen: Random) -> int:
    return chosen.choice(_LARGE) if chosen.random() < 0.2 else chosen.randint(0, 3_000)


def _usage(chosen: Random) -> dict[str, int]:
    return {chosen.choice(_RESOURCES): _amount(chosen) for _ in range(chosen.randint(0, 3))}


def _memory(chosen: Random) -> dict[str, int] | None:
    if chosen.random() < 0.5:
        return None
    names = ("usage_without_page_cache_bytes", "usage_with_page_cache_bytes")
    return {name: _amount(chosen) for name in names if chosen.random() < 0.5}


def _without_none(value: dict[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in value.items() if entry is not None}


def _pods(chosen: Random) -> list[dict[str, Any]]:
    return [
        _without_none(
            pod_usage(
                name,
                0,
                uid=f"{name}-{chosen.randint(1, 2)}",
                usage=_usage(chosen),
                memory=_memory(chosen),
                priority_class=chosen.choice(_CLASSES),
            )
        )
        for name in chosen.sample("abc", chosen.randint(0, 3))
    ]


def _applications(chosen: Random) -> list[dict[str, Any]]:
    return [
        {"name": name, "usage": _usage(chosen), "priority_class": chosen.choice(_CLASSES)}
        for name in chosen.sample("xy", chosen.randint(0, 2))
    ]


def usage_sample(at_ms: int, node: str, seed: int) -> dict[str, Any]:
    """A sample of this node and time; the rest follows from the seed.

    To draw each amount by itself would take nine tenths of a test's time.
    """
    chosen = Random(seed)
    return _without_none(
        sample(
            sampled_at_ms=at_ms,
            node=node,
            usage=_usage(chosen),
            memory=_memory(chosen),
            system_usage=chosen.choice((None, _usage(chosen))),
            pool=chosen.choice((None, None, "slow")),
            pods=_pods(chosen),
            host_applications=_applications(chosen),
            source=chosen.choice((None, "kubelet", "agent")),
        )
    )


_POLICIES = st.builds(
    collect_policy,
    st.sampled_from((30, 60, 90)),
    st.sampled_from((30, 90)),
    st.sampled_from(((), (40,), (120,), (40, 240))),
)


@st.composite
def histories(draw: DrawFn, events: int = 40) -> list[InputRecord]:
    """Records of one partition in the order of its log."""
    log = Log()
    clocks = dict.fromkeys(NODES, START_MS)
    for _ in range(draw(st.integers(1, events))):
        node = draw(st.sampled_from(NODES))
        event = draw(
            st.sampled_from(
                ["next"] * 8 + ["late", "late", "jump", "again", "bad", "back", "policy"]
            )
        )
        if event == "policy":
            log.record(collect_policy_record(draw(_POLICIES), {"slow": draw(_POLICIES)}))
            continue
        if event == "again" and log.records:
            old = draw(st.sampled_from(log.records))
            log.add_raw("node-usage", old.key, old.value, old.timestamp_ms)
            continue
        if event == "bad":
            value = draw(
                st.sampled_from([None, b"", b"{", b"[1]", orjson.dumps(sample(sampled_at_ms=5))])
            )
            log.add_raw("node-usage", f"test/{node}".encode(), value)
            continue
        step_s = draw(st.integers(1, 40))
        at_ms = clocks[node] + step_s * SECOND
        if event == "late":
            at_ms = clocks[node] - draw(st.integers(0, 150)) * SECOND
        elif event == "jump":
            at_ms = clocks[node] + draw(st.sampled_from([130, 300, 3_600])) * SECOND
        elif event == "back":
            at_ms = clocks[node] = START_MS + draw(st.integers(0, 60)) * SECOND
        clocks[node] = max(clocks[node], at_ms)
        log.add(usage_sample(at_ms, node, draw(_SEEDS)))
    return log.records


def batches(records: list[InputRecord]) -> SearchStrategy[list[list[InputRecord]]]:
    """The records cut into batches."""
    cuts = st.sets(st.integers(1, max(len(records) - 1, 1)))

    def cut(places: set[int]) -> list[list[InputRecord]]:
        bounds = [0, *sorted(places), len(records)]
        return [records[a:b] for a, b in pairwise(bounds) if a < b]

    return cuts.map(cut)
