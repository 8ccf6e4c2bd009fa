"""Prints the path of one record through the code: `python -m tests.walk request|sample|eviction`.

A module is in the path if one of its functions gets the record, or an object made from the record: its
message, its pod, the kind of the pod, the decision. A line is one visit of a package; `--functions` lists
the functions instead. The path leaves out plugins with their base classes, the container `SizedCache`,
modules of `schemas`, and `in_process`, because a walk begins at the stage that a worker calls.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from types import FrameType
from typing import Any

from pydantic import BaseModel

from schemas.messages.clock import ClockTick
from schemas.messages.metrics import NodeMetric, PodMetric
from schemas.messages.pods import PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.messages.usage import NodeUsage
from schemas.topics.codec import encode
from streams.in_process.pipeline import LocalPipeline, ProducedRecord
from tests.streams.builders import CLUSTER, START_MS, nodes, numbered_pod, numbered_request

_OWN_PACKAGES = ("streams.", "schemas.")
_EXCLUDED_MODULES = (
    "schemas.",
    "streams.in_process",
    "streams.placement.filters",
    "streams.placement.plugin",
    "streams.placement.scores",
    "streams.stage.sized_cache",
)
_POLICY = """
mode: enforce
plugins: {balance: [LowNodeLoad]}
rebalance:
  nodePools: [{name: all, highThresholds: {cpu: 65}, lowThresholds: {cpu: 45}}]
migration: {defaultJobMode: EvictDirectly, evictAllBarePods: true}
"""


class Walk:
    """Records calls with followed objects. Results of these calls are also followed."""

    def __init__(self, *followed: object) -> None:
        self.steps: list[tuple[str, str]] = []
        """Module and function of each call."""
        self.entered: set[str] = set()
        """All modules with a call."""
        self._followed: dict[int, object] = {}
        """Followed objects by id; the reference keeps the id unique."""
        self._followed_frames: set[int] = set()
        self._follow(*followed)

    def trace(self, work: Callable[[], Any]) -> None:
        sys.setprofile(self._record_call)
        try:
            work()
        finally:
            sys.setprofile(None)

    def _follow(self, *values: object) -> None:
        for value in values:
            if type(value).__module__.startswith(_OWN_PACKAGES) or isinstance(value, bytes):
                self._followed[id(value)] = value
            if isinstance(value, BaseModel):
                parts = (getattr(value, name) for name in type(value).model_fields)
                self._follow(*(part for part in parts if isinstance(part, BaseModel)))

    def _record_call(self, frame: FrameType, event: str, result: object) -> None:
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if not module.startswith(_OWN_PACKAGES):
            return
        self.entered.add(module)
        if event == "call":
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(id(frame.f_locals.get(name)) in self._followed for name in names):
                self._followed_frames.add(id(frame))
                if not code.co_filename.startswith("<"):
                    self.steps.append((module, code.co_qualname))
        elif event == "return" and id(frame) in self._followed_frames:
            self._followed_frames.discard(id(frame))
            self._follow(frame.f_locals.get("self") if code.co_name == "__init__" else result)

    @property
    def modules(self) -> list[tuple[str, list[str]]]:
        """Modules in the order of their calls, with the called functions."""
        steps_shown = [step for step in self.steps if not step[0].startswith(_EXCLUDED_MODULES)]
        return [
            (module, list(dict.fromkeys(function for _, function in steps)))
            for module, steps in groupby(steps_shown, key=lambda step: step[0])
        ]

    def describe(self) -> str:
        """Return a line per visit of a package, with the visited modules, and a line of counts."""
        paths = [module.removeprefix("streams.").rpartition(".") for module, _ in self.modules]
        visits = [
            (package.replace(".", "/"), [module for _, _, module in visited])
            for package, visited in groupby(paths, key=lambda path: path[0])
        ]
        reentries = len(visits) - len({package for package, _ in visits})
        return "\n".join(
            [
                *(f"{package:21}{', '.join(modules)}" for package, modules in visits),
                f"{len(set(paths))} modules, {reentries} re-entries of packages",
            ]
        )


def _make_record(topic: str, message: Any, at_ms: int = START_MS) -> ProducedRecord:
    key = "0" if topic == "clock" else f"{CLUSTER}/n0" if topic == "node-usage" else CLUSTER
    return ProducedRecord(topic, key, encode(message), at_ms)


def _make_tick(seconds: int) -> ProducedRecord:
    return _make_record("clock", ClockTick(partition=0, now_ms=START_MS + seconds * 1000))


def _make_metrics(seconds: int, cpus: Sequence[int], *pods: PodMetric) -> list[ProducedRecord]:
    return [
        _make_record(
            "node-metrics",
            NodeMetric(
                cluster=CLUSTER, node=f"n{number}", updated_at_ms=START_MS + seconds * 1000,
                average_ms=300_000, usage={"cpu": cpu}, pods=pods if number == 0 else (),
            ),
        )
        for number, cpu in enumerate(cpus)
    ]  # fmt: skip


def _make_pipeline() -> LocalPipeline:
    pipeline = LocalPipeline()
    policy = PolicyRecord(cluster=CLUSTER, document=_POLICY, applied_at_ms=START_MS)
    states = (_make_record("node-state", node) for node in nodes())
    metrics = _make_metrics(0, [4_000] * 4)
    pipeline.apply([_make_record("policies", policy), *states, *metrics, _make_tick(0)])
    return pipeline


def walk_request() -> Walk:
    """Walk a request that is placed immediately."""
    pipeline = _make_pipeline()
    request = _make_record("scheduling-requests", numbered_request(1))
    walk = Walk(request, request.value)
    walk.trace(lambda: pipeline.apply([request]))
    return walk


def walk_sample() -> Walk:
    """Walk a usage sample that ends a report interval."""
    pipeline = _make_pipeline()
    for second in range(0, 600, 10):
        sample = NodeUsage(
            cluster=CLUSTER, node="n0", sampled_at_ms=START_MS + second * 1000, usage={"cpu": 1_000}
        )
        record = _make_record("node-usage", sample)
        walk = Walk(record, record.value)
        walk.trace(lambda record=record: pipeline.apply([record]))  # type: ignore[misc]
        if "streams.aggregate.report" in walk.entered:
            return walk
    raise AssertionError("no metric was made")


def walk_eviction() -> Walk:
    """Walk a pod of a hot node, during ticks that create a migration and send an eviction command."""
    pipeline = _make_pipeline()
    running = PodLifecycle(
        cluster=CLUSTER,
        event="bound",
        pod=numbered_pod(1, cpu="8").model_copy(update={"node": "n0"}),
    )
    usage = PodMetric(namespace="default", name="p1", usage={"cpu": 8_000})
    pipeline.apply([_make_record("pod-lifecycle", running)])
    node = pipeline.cluster.clusters[CLUSTER].inventory.nodes["n0"]
    walk = Walk(*node.held.values())
    for minute in range(1, 30):
        pipeline.apply(_make_metrics(60 * minute, [15_000, 1_000, 1_000, 1_000], usage))
        out: list[tuple[str, bytes]] = []
        walk.trace(lambda now=minute, out=out: out.extend(pipeline.apply([_make_tick(60 * now)])))  # type: ignore[misc]
        if any(topic == "eviction-commands" for topic, _ in out):
            return walk
    raise AssertionError("nothing was evicted")


WALKS = {"request": walk_request, "sample": walk_sample, "eviction": walk_eviction}


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--functions"]
    if len(names) != 1 or names[0] not in WALKS:
        arguments = " ".join(sys.argv[1:])
        sys.exit(f"found {arguments!r}; expected one of {', '.join(WALKS)}, and --functions")
    walk = WALKS[names[0]]()
    if "--functions" in sys.argv:
        for module, functions in walk.modules:
            print(f"{module:42} {', '.join(functions)}")
    else:
        print(walk.describe())


if __name__ == "__main__":
    main()
