"""How long a request waits for its decision when requests come at an even pace.

Measured from handing the request to the producer to holding the decision: two trips through the
broker, and the journal's acknowledgement in between. A request that is handed over late counts from
when it was due, so a stall of this side is not hidden. This side works in steps of `_STEP_S`, which
the figure contains, so that it takes little of the cores that broker and worker share; `detail`
says how much it took.
"""

import time
from functools import cache, partial
from typing import Any

import numpy as np
import orjson

from benchmarks import messages
from benchmarks.decisions import check_decisions
from benchmarks.figures import Figure, Unproven
from benchmarks.rig import BrokerKind, rig, usage, watched
from benchmarks.wire import PATIENCE_S, Arrival, Receiver, encoded

NODES = 5_000
_SECONDS = 15
#: Requests are handed over and decisions taken in so often, in seconds.
_STEP_S = 0.002
#: The first requests, which are not counted: rankings and connections are made then.
_WARMUP_S = 3


def latency(name: str, kind: BrokerKind, per_s: int, percentile: int) -> Figure:
    """One percentile of the time from request to decision; all percentiles are of one run."""
    measured = _run(kind, per_s)
    return Figure(name, measured[f"p{percentile}_ms"], "ms", measured)


@cache
def _run(kind: BrokerKind, per_s: int) -> dict[str, Any]:
    with rig(kind) as place, place.worker("cluster") as worker:
        place.describe_cluster(worker, NODES)
        count = per_s * (_SECONDS + _WARMUP_S)
        records = encoded("scheduling-requests", map(messages.request, range(count)))
        due: list[float] = []
        found: list[Arrival] = []
        with Receiver(place.settings, ["placement-decisions", "dead-letters"]) as receiver:
            before, bench_before_s = usage(worker.pid or 0), time.process_time()
            broker_before_s = usage(place.broker_pid).cpu_s if place.broker_pid else 0.0
            began = time.monotonic()
            while len(found) < count:
                now = time.monotonic()
                while len(due) < count and began + len(due) / per_s <= now:
                    place.sender.hand_over(records[len(due)])
                    due.append(began + len(due) / per_s)
                time.sleep(_STEP_S)
                found += watched(receiver, worker, 0.0)
                if now > due[-1] + PATIENCE_S:
                    raise Unproven(f"{len(found)} of {count} came; {worker.last_words()}")
            after, bench_s = usage(worker.pid or 0), time.process_time() - bench_before_s
            broker_s = usage(place.broker_pid).cpu_s - broker_before_s if place.broker_pid else 0.0
            found += watched(receiver, worker, 1.0)
    check_decisions((each.value for each in found), {f"asking-{n}" for n in range(count)}, NODES)
    waited_ms = np.array([(each.at_s - due[_number(each)]) * 1000 for each in found])
    counted = waited_ms[[_number(each) >= per_s * _WARMUP_S for each in found]]
    return {
        "requests_per_s": per_s,
        "seconds": _SECONDS,
        "nodes": NODES,
        **{f"p{p}_ms": round(float(np.percentile(counted, p)), 2) for p in (50, 90, 99)},
        "max_ms": round(float(counted.max()), 2),
        "worker_cpu_share": round((after.cpu_s - before.cpu_s) / (_SECONDS + _WARMUP_S), 2),
        "worker_queued_share": round(
            (after.queued_s - before.queued_s) / (_SECONDS + _WARMUP_S), 2
        ),
        "broker_cpu_share": round(broker_s / (_SECONDS + _WARMUP_S), 2),
        "bench_cpu_share": round(bench_s / (_SECONDS + _WARMUP_S), 2),
    }


def _number(arrival: Arrival) -> int:
    return int(orjson.loads(arrival.value)["pod"]["name"].rpartition("-")[2])


_VARIANTS: tuple[tuple[str, BrokerKind, int], ...] = (
    ("", "kafka", 200),
    (".at_1000", "kafka", 1_000),
    (".embedded", "embedded", 200),
)
BENCHMARKS = {
    f"decision_latency_p{percentile}_ms{variant}": partial(
        latency, f"decision_latency_p{percentile}_ms{variant}", kind, per_s, percentile
    )
    for variant, kind, per_s in _VARIANTS
    for percentile in (50, 99)
}
"""All figures of this module, by name."""
