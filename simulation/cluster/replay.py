"""Readings of traced machines, repeated with shifts in time to the wanted number of nodes.

A node replays one machine of the trace, reading by reading at their own irregular times, from the
beginning of one of its days. The first nodes begin with the day of their machine that has most
readings, the next ones with the next such day, up to half an hour earlier or later: so the hours of
the day keep their meaning and no two nodes move in step. A machine's days are repeated from the
first one when they end; only whole days are used. Where a machine has a gap its node has one, and
becomes unknown to the scheduler.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulation.cluster.alibaba import MachineTrace
from simulation.cluster.readings import Readings, in_order

_DAY_MS = 86_400_000
_JITTER_MS = 30 * 60_000
#: A day is whole if no more than this is missing at its beginning or its end.
_EDGE_MS = 30 * 60_000
_STREAM = 30

IntArray = npt.NDArray[np.int64]


def replay_readings(
    traces: Sequence[MachineTrace],
    nodes: int,
    millicores: int,
    memory_bytes: int,
    begin_ms: int,
    end_ms: int,
    seed: int,
) -> Readings:
    """Readings of `nodes` nodes from `begin_ms`, a midnight, to `end_ms`.

    Every node is a machine of `millicores` and `memory_bytes`.
    """
    columns: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []
    for node in range(nodes):
        trace = traces[node % len(traces)]
        at_ms, which = _repeated(
            trace, node // len(traces), end_ms - begin_ms, _jitter_ms(node, seed)
        )
        columns.append(
            (
                begin_ms + at_ms,
                np.full(len(which), node, dtype=np.int64),
                (trace.cpu_percent[which] * millicores / 100).round().astype(np.int64),
                (trace.memory_percent[which] * memory_bytes / 100).round().astype(np.int64),
            )
        )
    at, machine, cpu, memory = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return in_order(at, machine, cpu, memory)


def _jitter_ms(node: int, seed: int) -> int:
    random = np.random.default_rng([seed, _STREAM, node])
    return int(random.integers(-_JITTER_MS, _JITTER_MS + 1))


def _repeated(
    trace: MachineTrace, copy: int, span_ms: int, jitter_ms: int
) -> tuple[IntArray, IntArray]:
    """Times from 0 to `span_ms` at which a copy of the machine has readings, and which those
    are."""
    times_ms = trace.times_s * 1000
    first_midnight = -((_EDGE_MS - int(times_ms[0])) // _DAY_MS) * _DAY_MS
    days = (int(times_ms[-1]) + _EDGE_MS - first_midnight) // _DAY_MS
    if days >= 1:
        begin, period = first_midnight, days * _DAY_MS
    else:  # less than a whole day: it is repeated as it is
        begin, period, days = int(times_ms[0]), int(times_ms[-1] - times_ms[0]) + 60_000, 1
    used = np.flatnonzero((times_ms >= begin) & (times_ms < begin + period))
    per_day = np.bincount((times_ms[used] - begin) // _DAY_MS, minlength=days)
    best_first = np.argsort(-per_day, kind="stable")
    shift_ms = int(best_first[copy % days]) * _DAY_MS + (jitter_ms if copy else 0)
    offsets = (times_ms[used] - begin - shift_ms) % period
    rounds = np.arange(-(-span_ms // period), dtype=np.int64)[:, None] * period
    at_ms = (offsets + rounds).ravel()
    which = np.tile(used, len(rounds))
    within = at_ms < span_ms
    return at_ms[within], which[within]
