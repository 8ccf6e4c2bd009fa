"""Normalizes scores: stretches raw scores of any size to 0..100 over the nodes that pass.

The best node gets 100 and the worst 0; if all are equal, every node gets 100. The functions for all
nodes and for one node use the same arithmetic in the same order, so that results are equal.
Source: docs/reference/upstream.md R5.
"""

import numpy as np
from numpy.typing import NDArray

from streams.stage.arrays import FloatArray


def find_bounds(
    raw: FloatArray, passes: NDArray[np.bool_] | None, passing: int
) -> tuple[float, float]:
    """Return the lowest and highest raw score of the `passing` nodes that pass."""
    if not passing:
        return 0.0, 0.0
    if passes is None or passing == raw.size:
        return float(raw.min()), float(raw.max())
    raw_passing = raw[passes]
    return float(raw_passing.min()), float(raw_passing.max())


def stretch_all(raw: FloatArray, low: float, high: float) -> NDArray[np.int32]:
    if high <= low:
        return np.full(raw.size, 100, dtype=np.int32)
    # Divide first: otherwise the best node may get 99.99, which is truncated to 99.
    stretched = raw - low
    stretched /= high - low
    stretched *= 100.0
    # Refused nodes may be so far outside of the bounds that the conversion overflows.
    np.clip(stretched, 0.0, 100.0, out=stretched)
    return stretched.astype(np.int32)


def stretch(raw: float, low: float, high: float) -> int:
    if high <= low:
        return 100
    stretched = (raw - low) / (high - low) * 100.0
    if stretched < 0.0:
        return 0
    return int(stretched) if stretched < 100.0 else 100
