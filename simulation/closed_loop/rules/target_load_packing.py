"""Trimaran's TargetLoadPacking: fills nodes up to a target of CPU usage, then spreads.

    score = (100 - x) * u / x + x              up to the target x = 40
    score = x * (100 - u) / (100 - x)          above it
    score = 0                                  above 100

u is the expected CPU usage of the node in percent; scores are rounded. A node just below the target has
about 100, a node just above the target about 39. The expected usage is the measured usage, plus the pod,
plus pods that were bound after the measurement or less than a minute before. A pod is expected to use 1.5
times its request, or 1000m without a request. A node that is not measured scores 0.

Source: kubernetes-sigs/scheduler-plugins, pkg/trimaran/targetloadpacking/targetloadpacking.go,
`Score` and `PredictUtilisation`, with the defaults. Differences: limits are unknown, a request is not
split by container, unmeasured pods without requests are ignored, and usage is a share of allocatable.
As upstream's README recommends, kube-scheduler's scores by requests are off.
"""

import numpy as np
from numpy.typing import NDArray

from simulation.closed_loop.rules.view import (
    CPU,
    Array,
    NodesView,
    choose_best,
    find_nodes_with_room,
)

#: Expected usage of a pod for each millicore of its request.
REQUEST_FACTOR = 1.5
#: Expected usage of a pod without a request, in millicores.
DEFAULT_MILLICORES = 1000.0
#: Target of a node's CPU usage, in percent.
TARGET_PERCENT = 40.0


def score_percent(percent: Array) -> NDArray[np.int64]:
    """Score expected usages of at least 0 percent, from 0 to 100; shape (nodes,)."""
    below = (100 - TARGET_PERCENT) * percent / TARGET_PERCENT + TARGET_PERCENT
    above = TARGET_PERCENT * (100 - percent) / (100 - TARGET_PERCENT)
    score = np.where(percent <= TARGET_PERCENT, below, np.maximum(above, 0.0))
    # Go rounds halves away from 0; numpy rounds them to the even number.
    return np.floor(score + 0.5).astype(np.int64)


def compute_expected_percent(request: Array, view: NodesView) -> Array:
    """Return the expected CPU usage of each node with the pod, in percent; shape (nodes,).

    The usage is nan for a node that is not measured, and 0 for a node without CPU. `request` has the
    shape (2,).
    """
    pod = request[CPU] * REQUEST_FACTOR if request[CPU] else DEFAULT_MILLICORES
    missing = view.unreported[:, CPU] * REQUEST_FACTOR
    capacity = view.allocatable[:, CPU]
    expected = 100 * (view.measured[:, CPU] + pod + missing)
    return np.where(capacity > 0, expected / np.where(capacity > 0, capacity, 1.0), 0.0)


def choose(request: Array, view: NodesView, random: np.random.Generator) -> int | None:
    percent = compute_expected_percent(request, view)
    measured = ~np.isnan(view.measured[:, CPU])
    scores = np.where(measured, score_percent(np.where(measured, percent, 0.0)), 0)
    return choose_best(scores, find_nodes_with_room(request, view), random)
