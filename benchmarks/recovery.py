"""A large cluster after kill -9: how long until the next decision, and how much memory it takes."""

import time
from functools import cache, partial
from typing import Any

from benchmarks import messages
from benchmarks.decisions import check_decisions
from benchmarks.figures import Figure, Unproven
from benchmarks.rig import rig, usage, watched
from benchmarks.wire import PATIENCE_S, Arrival, Receiver, encoded

NODES = 5_000
PODS_PER_NODE = 30


def recovery(name: str, key: str, unit: str) -> Figure:
    """Seconds from the start of a new worker after the kill to a decision, or its memory then."""
    measured = _run()
    return Figure(name, measured[key], unit, measured)


@cache
def _run() -> dict[str, Any]:
    with rig("kafka") as place:
        with place.worker("cluster") as first:
            place.describe_cluster(first, NODES, pods_per_node=PODS_PER_NODE)
            before = usage(first.pid or 0)
            first.kill()
        place.sender.send(encoded("scheduling-requests", [messages.request(0)]))
        found: list[Arrival] = []
        with Receiver(
            place.settings, ["placement-decisions", "dead-letters"], from_beginning=True
        ) as receiver:
            began = time.monotonic()
            with place.worker("cluster") as second:
                while not found:
                    found += watched(receiver, second)
                    if time.monotonic() > began + PATIENCE_S:
                        raise Unproven(f"no decision came; {second.last_words()}")
                after = usage(second.pid or 0)
        check_decisions((each.value for each in found), {"asking-0"}, NODES)
        seconds = found[0].at_s - began
        return {
            "nodes": NODES,
            "pods": NODES * PODS_PER_NODE,
            "seconds": round(seconds, 2),
            "worker_cpu_s": round(after.cpu_s, 2),
            "worker_queued_s": round(after.queued_s, 2),
            "rss_mib": round(after.rss_mib),
            "rss_mib_before_the_kill": round(before.rss_mib),
        }


BENCHMARKS = {
    "recovery_s": partial(recovery, "recovery_s", "seconds", "s"),
    "worker_rss_mib": partial(recovery, "worker_rss_mib", "rss_mib", "MiB"),
}
"""All figures of this module, by name."""
