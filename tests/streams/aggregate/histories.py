"""Histories of a partition for property tests: what producers do to a log, good and bad.

A few nodes send samples mostly in order and now and then late, twice, from a clock that is wrong,
with other resources or other pods; among them are records that nobody can read.
"""

from itertools import pairwise
from typing import Any

import orjson
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from streams.stage.records import InputRecord
from tests.streams.aggregate.builders import SECOND, T0, Log, pod, sample, windows

NODES = ("n0", "n1")

_AMOUNTS = st.one_of(st.integers(0, 3_000), st.sampled_from([2**40, 2**62, 2**63 - 1]))
_RESOURCES = st.sampled_from(["cpu", "cpu", "memory", "memory", "gpu", "disk"])
_USAGE = st.dictionaries(_RESOURCES, _AMOUNTS, max_size=3)
_READINGS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "usage_without_page_cache_bytes": _AMOUNTS,
        "usage_with_page_cache_bytes": _AMOUNTS,
    },
)
_CLASSES = st.sampled_from(["", "koord-prod", "koord-batch"])


def _without_none(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if each is not None}


@st.composite
def _pods(draw: DrawFn) -> list[dict[str, Any]]:
    names = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3))
    return [
        _without_none(
            pod(
                name,
                0,
                uid=draw(st.sampled_from([f"{name}-1", f"{name}-2"])),
                usage=draw(_USAGE),
                memory=draw(_READINGS),
                priority_class=draw(_CLASSES),
            )
        )
        for name in names
    ]


@st.composite
def _applications(draw: DrawFn) -> list[dict[str, Any]]:
    names = draw(st.lists(st.sampled_from("xy"), unique=True, max_size=2))
    return [
        {"name": name, "usage": draw(_USAGE), "priority_class": draw(_CLASSES)} for name in names
    ]


@st.composite
def usage_samples(draw: DrawFn, at_ms: int, node: str) -> dict[str, Any]:
    """A sample of this node and time."""
    return _without_none(
        sample(
            at_ms,
            node=node,
            usage=draw(_USAGE),
            memory=draw(_READINGS),
            system_usage=draw(st.none() | _USAGE),
            pool=draw(st.sampled_from([None, None, "slow"])),
            pods=draw(_pods()),
            host_applications=draw(_applications()),
        )
    )


_POLICIES = st.builds(
    windows,
    st.sampled_from((30, 60, 90)),
    st.sampled_from((30, 90)),
    st.sampled_from(((), (40,), (120,), (40, 240))),
)


@st.composite
def histories(draw: DrawFn, events: int = 40) -> list[InputRecord]:
    """Records of one partition in the order of its log."""
    log = Log()
    clocks = dict.fromkeys(NODES, T0)
    for _ in range(draw(st.integers(1, events))):
        node = draw(st.sampled_from(NODES))
        what = draw(
            st.sampled_from(
                ["next"] * 8 + ["late", "late", "jump", "again", "bad", "back", "policy"]
            )
        )
        if what == "policy":
            log.add_policy(draw(_POLICIES), {"slow": draw(_POLICIES)})
            continue
        if what == "again" and log.records:
            old = draw(st.sampled_from(log.records))
            log.add_raw(old.key, old.value, old.timestamp_ms)
            continue
        if what == "bad":
            value = draw(st.sampled_from([None, b"", b"{", b"[1]", orjson.dumps(sample(5))]))
            log.add_raw(f"c/{node}".encode(), value)
            continue
        step_s = draw(st.integers(1, 40))
        at_ms = clocks[node] + step_s * SECOND
        if what == "late":
            at_ms = clocks[node] - draw(st.integers(0, 150)) * SECOND
        elif what == "jump":
            at_ms = clocks[node] + draw(st.sampled_from([130, 300, 3_600])) * SECOND
        elif what == "back":
            at_ms = clocks[node] = T0 + draw(st.integers(0, 60)) * SECOND
        clocks[node] = max(clocks[node], at_ms)
        log.add(draw(usage_samples(at_ms, node)))
    return log.records


def batches(records: list[InputRecord]) -> SearchStrategy[list[list[InputRecord]]]:
    """The records cut into batches."""
    cuts = st.sets(st.integers(1, max(len(records) - 1, 1)))

    def cut(places: set[int]) -> list[list[InputRecord]]:
        bounds = [0, *sorted(places), len(records)]
        return [records[a:b] for a, b in pairwise(bounds) if a < b]

    return cuts.map(cut)
