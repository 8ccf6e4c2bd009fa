"""The decisions of a benchmark, checked: each request placed once, and no other decision."""

from collections.abc import Iterable

import orjson

from benchmarks.figures import Unproven


def check_decisions(values: Iterable[bytes], expected: set[str], nodes: int) -> None:
    """Raises Unproven unless every expected pod, by name, was placed exactly once.

    Args:
        values: the decisions as they came.
        expected: names of the pods that asked.
        nodes: number of nodes of each decision, none of them stale.
    """
    placed: set[str] = set()
    for value in values:
        decision = orjson.loads(value)
        name = decision["pod"]["name"]
        if decision["outcome"] != "placed" or decision["nodes"] != nodes:
            raise Unproven(f"{name} was not placed among {nodes} nodes: {value[:500]!r}")
        if decision["stale_nodes"]:
            raise Unproven(f"{name} met {decision['stale_nodes']} stale nodes")
        if name in placed:
            raise Unproven(f"{name} was placed twice")
        placed.add(name)
    if placed != expected:
        lost, strange = expected - placed, placed - expected
        raise Unproven(f"{len(lost)} requests have no decision; {len(strange)} have no request")
