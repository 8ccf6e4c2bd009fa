"""Which modules one record passes: `python -m tests.walk request|sample|eviction`.

Prints the modules in the order in which the record enters them first, each with how often calls
come back to it, and at the end how often packages are entered again. Plugins and modules of
`schemas`, where messages and policies are, are counted but not shown one by one.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from schemas.messages.clock import ClockTick
from schemas.messages.metrics import NodeMetric, PodMetric
from schemas.messages.pods import PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.messages.usage import NodeUsage
from schemas.topics.codec import encode
from streams.in_process.pipeline import LocalPipeline, Written
from tests.streams.builders import NOW_MS, nodes, pod, request

_PLUGINS = ("streams.placement.filters", "streams.placement.scores", "schemas.")
_POLICY = """
mode: enforce
plugins: {balance: [LowNodeLoad]}
rebalance:
  nodePools: [{name: all, highThresholds: {cpu: 65}, lowThresholds: {cpu: 45}}]
migration: {defaultJobMode: EvictDirectly, evictAllBarePods: true}
"""


class Walk:
    """Modules of this project that calls enter, in order."""

    def __init__(self) -> None:
        self.entered: list[str] = []

    def trace(self, work: Callable[[], Any]) -> None:
        """Do the work, and note each change from one module to another by a call."""
        sys.setprofile(self._note)
        try:
            work()
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        ours = module.startswith(("streams.", "schemas."))
        if event == "call" and ours and (not self.entered or self.entered[-1] != module):
            self.entered.append(module)

    @property
    def modules(self) -> list[str]:
        """Modules without plugins and messages, by their first entry."""
        return [each for each in dict.fromkeys(self.entered) if not each.startswith(_PLUGINS)]

    def reentries(self) -> Counter[str]:
        """How often each package was entered again, its plugins and messages left out."""
        packages = [
            each.rsplit(".", 1)[0] for each in self.entered if not each.startswith(_PLUGINS)
        ]
        runs = [
            each for each, before in zip(packages, ["", *packages], strict=False) if each != before
        ]
        return Counter({name: count - 1 for name, count in Counter(runs).items() if count > 1})


def _written(topic: str, message: Any, at_ms: int = NOW_MS) -> Written:
    key = "0" if topic == "clock" else "c/n0" if topic == "node-usage" else "c"
    return Written(topic, key, encode(message), at_ms)


def _tick(seconds: int) -> Written:
    return _written("clock", ClockTick(partition=0, now_ms=NOW_MS + seconds * 1000))


def _metrics(seconds: int, cpus: Sequence[int], *pods: PodMetric) -> list[Written]:
    return [
        _written(
            "node-metrics",
            NodeMetric(
                cluster="c", node=f"n{number}", updated_at_ms=NOW_MS + seconds * 1000,
                average_ms=300_000, usage={"cpu": cpu}, pods=pods if number == 0 else (),
            ),
        )
        for number, cpu in enumerate(cpus)
    ]  # fmt: skip


def _cluster() -> LocalPipeline:
    pipeline = LocalPipeline()
    policy = PolicyRecord(cluster="c", document=_POLICY, applied_at_ms=NOW_MS)
    records = [_written("policies", policy), *(_written("node-state", each) for each in nodes())]
    pipeline.apply([*records, *_metrics(0, [4_000] * 4), _tick(0)])
    return pipeline


def walk_request() -> Walk:
    """A request that is placed at once."""
    pipeline, walk = _cluster(), Walk()
    asking = _written("scheduling-requests", request(1))
    walk.trace(lambda: pipeline.apply([asking]))
    return walk


def walk_sample() -> Walk:
    """A usage sample that ends a report interval, up to the node metric."""
    pipeline = _cluster()
    for second in range(0, 600, 10):
        sample = NodeUsage(
            cluster="c", node="n0", sampled_at_ms=NOW_MS + second * 1000, usage={"cpu": 1_000}
        )
        walk = Walk()
        walk.trace(lambda now=sample: pipeline.apply([_written("node-usage", now)]))  # type: ignore[misc]
        if "streams.aggregate.report" in walk.entered:
            return walk
    raise AssertionError("no metric was made")


def walk_eviction() -> Walk:
    """The tick at which a node has been hot long enough, and a pod is evicted."""
    pipeline = _cluster()
    running = PodLifecycle(
        cluster="c", event="bound", pod=pod(1, cpu="8").model_copy(update={"node": "n0"})
    )
    usage = PodMetric(namespace="default", name="p1", usage={"cpu": 8_000})
    pipeline.apply([_written("pod-lifecycle", running)])
    for minute in range(1, 30):
        pipeline.apply(_metrics(60 * minute, [15_000, 1_000, 1_000, 1_000], usage))
        traced = Walk()
        out: list[tuple[str, bytes]] = []
        traced.trace(lambda now=minute, out=out: out.extend(pipeline.apply([_tick(60 * now)])))  # type: ignore[misc]
        if any(topic == "eviction-commands" for topic, _ in out):
            return traced
    raise AssertionError("nothing was evicted")


_WALKS = {"request": walk_request, "sample": walk_sample, "eviction": walk_eviction}


def main() -> None:
    """Print one walk."""
    if len(sys.argv) != 2 or sys.argv[1] not in _WALKS:
        sys.exit(f"found {' '.join(sys.argv[1:])!r}; expected one of {', '.join(_WALKS)}")
    walk = _WALKS[sys.argv[1]]()
    times = Counter(walk.entered)
    for number, module in enumerate(walk.modules, 1):
        print(f"{number:3} {module:50} entered {times[module]} times")
    again = walk.reentries()
    parts = ", ".join(f"{name} {count}" for name, count in again.most_common())
    print(f"{len(walk.modules)} modules; packages entered again {again.total()} times: {parts}")


if __name__ == "__main__":
    main()
