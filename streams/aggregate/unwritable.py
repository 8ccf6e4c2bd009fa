"""Which nodes are to blame where rows of a batch cannot be written.

A row has samples of many nodes. Once writing all of them has failed, each is tried alone here, so
that the defect touches the nodes that show it and no others. Where only all of a row together fail,
all of its nodes are to blame.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from streams.aggregate.partition import PartitionState
from streams.aggregate.rows import node_row, pods_row, samples_row

#: The offset of the record at which a node fails, and why.
Blame = tuple[int, Exception]


def unwritable(
    state: PartitionState, first_offset: int, newest: Callable[[str], int]
) -> dict[str, Blame]:
    """Nodes that cannot be written, and the first record of each that shows it.

    Args:
        state: whose rows cannot be written.
        first_offset: where the batch begins; what was before it has been written.
        newest: offset of a node's newest record in the batch, which is blamed for names of pods.
    """
    blamed: dict[str, Blame] = {}
    for node, offset, error in _entries(state, first_offset):
        if node not in blamed or offset < blamed[node][0]:
            blamed[node] = offset, error
    for each in state.renamed():
        failed = _error(partial(node_row, 0, each.key, each.created_offset, each.pods))
        if failed is not None:
            blamed.setdefault(each.key, (newest(each.key), failed))
    return blamed


def _entries(state: PartitionState, first_offset: int) -> Iterator[tuple[str, int, Exception]]:
    """Node and offset of what cannot be written of samples and pods."""
    for row, samples in state.samples_log.pending():
        yield from _failing(partial(samples_row, 0, row), samples, first_offset)
    for row, pods in state.pods_log.pending():
        yield from _failing(partial(pods_row, 0, row), pods, first_offset)


def _failing(
    write: Callable[[Sequence[Any]], object], entries: Sequence[Any], first_offset: int
) -> Iterator[tuple[str, int, Exception]]:
    together = _error(partial(write, entries))
    if together is None:
        return
    fresh = [each for each in entries if each.offset >= first_offset]
    alone = [(each, _error(partial(write, [each]))) for each in fresh]
    failed = [(each, error) for each, error in alone if error is not None]
    for each, error in failed or [(each, together) for each in fresh]:
        yield each.node, each.offset, error


def _error(write: Callable[[], object]) -> Exception | None:
    try:
        write()
    except Exception as error:
        return error
    return None
