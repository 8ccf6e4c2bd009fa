"""The worst record or tick of each kind, within the limits: `worst_record_ms.<kind>`.

CPU time on 5,000 nodes with 30 pods each, as the stage applies the record: reading it, deciding,
and writing rows and outputs as bytes. Aim: 250 ms, and 3 s for the rare records that change every
pod or node at once. Packing rows for the tables and the journal is
the worker's own and not part of it.
"""

import gc
from collections.abc import Callable
from functools import lru_cache, partial

from benchmarks import worst_records as records
from benchmarks import worst_ticks as ticks
from benchmarks.dense_cluster import NODES, PODS_PER_NODE, DenseCluster, in_a_copy
from benchmarks.figures import Benchmark, Figure

_AIM_MS, _RARE_AIM_MS = 250, 3_000
_RARE = ("policy_estimates", "policy_risk", "list_end_pods", "list_end_nodes")


def benchmarks() -> dict[str, Benchmark]:
    """All figures of this module, by name."""
    busy, empty, wide = partial(_world, PODS_PER_NODE), partial(_world, 0), partial(_world, 0, True)
    kinds: dict[str, tuple[Callable[[], DenseCluster] | None, Callable[..., float]]] = {
        "request_affinity": (wide, records.affinity),
        "request_resources": (wide, records.resources),
        "request_ports": (empty, records.ports),
        "request_tolerations": (empty, records.tolerations),
        "metric_pods": (busy, records.metric),
        "node_added": (busy, records.node_added),
        "outcome": (busy, records.outcome),
        "policy_values": (busy, partial(records.policy, records.values())),
        "policy_moving": (busy, partial(records.policy, records.moving())),
        "policy_thresholds": (busy, partial(records.policy, records.THRESHOLDS)),
        "policy_estimates": (busy, partial(records.policy, records.ESTIMATES)),
        "policy_risk": (busy, records.policy_risk),
        "tick_waiting_kinds": (busy, ticks.waiting_kinds),
        "tick_policy_waiting_kinds": (busy, ticks.policy_waiting_kinds),
        "tick_waiting_placed": (busy, ticks.waiting_placed),
        "tick_expiries": (busy, ticks.expiries),
        "tick_round": (busy, ticks.round),
        "tick_round_unpacked": (busy, ticks.round_unpacked),
        "tick_round_budgets": (busy, ticks.round_budgets),
        "tick_round_hot": (busy, ticks.round_hot),
        "tick_migrations_wait": (busy, ticks.migrations_wait),
        "tick_migrations_end": (busy, ticks.migrations_end),
        "drain": (busy, ticks.drain),
        "list_end_pods": (busy, records.list_end_pods),
        "list_end_nodes": (busy, records.list_end_nodes),
        "usage_sample": (None, records.usage_sample),
    }
    return {
        f"worst_record_ms.{kind}": partial(_figure, f"worst_record_ms.{kind}", *how)
        for kind, how in kinds.items()
    }


@lru_cache(maxsize=2)
def _world(pods: int, wide: bool = False) -> DenseCluster:
    """A cluster, which takes long to bring up; what is measured changes a copy of it."""
    world = DenseCluster(pods=pods, wide=wide)
    gc.freeze()
    return world


def _figure(
    name: str, world: Callable[[], DenseCluster] | None, measure: Callable[..., float]
) -> Figure:
    value = in_a_copy(measure if world is None else partial(measure, world()))
    aim_ms = _RARE_AIM_MS if name.rpartition(".")[2] in _RARE else _AIM_MS
    return Figure(name, value, "ms", {"nodes": NODES, "aim_ms": aim_ms, "clock": "cpu"})
