"""`python -m benchmarks.yardstick [--write | --record]`: compares decisions with recorded digests.

A digest is a SHA-256 over pod, node and log time of all placements and evictions, so it does not depend on
message formats. `yardstick.json` in this folder has the digests:

    closed loop        a digest for each contender and seed: a small cluster under high load
    recorded inputs    a digest for `recorded_inputs.jsonl.xz`: records about usage, pods, nodes, policies,
                       a drain and a pause

If a change alters decisions on purpose, write new digests with `--write`, and explain the reason in the
commit. `--record` records the inputs again. If the format of an input changes, convert the recorded
inputs instead, because a new recording would change the digest.

Exit codes: 0 the digests are equal, 1 they are not, 2 the command line is wrong.
"""

import gc
import hashlib
import json
import lzma
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal

from schemas.base.message import Message
from schemas.messages.commands import EvictionCommand
from schemas.messages.decisions import PlacementDecision
from schemas.messages.migrations import MigrationRequest
from schemas.messages.policies import PolicyRecord
from schemas.topics.codec import decode
from simulation.closed_loop.contenders import POLICIES, list_contenders, make_factories
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.runs import GC_THRESHOLDS
from simulation.closed_loop.scenario import BEGIN_MS, CLUSTER, HOUR_MS, draw_scenario
from simulation.closed_loop.stage_contender import StageContender
from simulation.closed_loop.traces import model_traces
from simulation.closed_loop.world import Contender, World
from simulation.cluster.cluster import Observer
from simulation.cluster.kubelet import PodEvent
from streams.in_process.pipeline import LocalPipeline, ProducedRecord

DIGESTS = Path(__file__).with_name("yardstick.json")
INPUTS = Path(__file__).with_name("recorded_inputs.jsonl.xz")
#: A small cluster with so much load that every strategy moves pods.
CLOSED_LOOP = Parameters(nodes=16, hours=1.5, filling_hours=0.5, load=0.6)
SEEDS = (0, 1, 2)
RECORDED = Parameters(nodes=12, hours=3.0, filling_hours=1.0, load=0.6)


class DecisionDigest:
    """Digest and number of the decisions of one run."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.counts: Counter[str] = Counter()

    def add(self, action: Literal["place", "evict"], pod: str, node: str, at_ms: int) -> None:
        self.counts[action] += 1
        self._digest.update(f"{action} {pod} {node} {at_ms}\n".encode())

    def add_outputs(self, outputs: Iterable[tuple[str, bytes]]) -> None:
        """Add the decisions among outputs of the stages, which are topics and values."""
        for topic, value in outputs:
            if topic not in ("placement-decisions", "eviction-commands"):
                continue
            message = decode(topic, value)
            if isinstance(message, EvictionCommand):
                self.add("evict", message.pod.uid, message.node, message.decided_at_ms)
            elif isinstance(message, PlacementDecision) and message.node is not None:
                self.add("place", message.pod.uid, message.node, message.decided_at_ms)

    def summarize(self) -> str:
        return (
            f"{self._digest.hexdigest()[:16]} {self.counts['place']} placements "
            f"{self.counts['evict']} evictions"
        )


class _ObservedStages(LocalPipeline):
    """Both stages; calls a function with the inputs and outputs of each batch."""

    def __init__(
        self, observe: Callable[[Sequence[ProducedRecord], list[tuple[str, bytes]]], None]
    ) -> None:
        super().__init__()
        self._observe = observe

    def apply(self, records: Sequence[ProducedRecord]) -> list[tuple[str, bytes]]:
        outputs = super().apply(records)
        self._observe(records, outputs)
        return outputs


class _BindingObserver(Observer):
    """Adds the bindings of a rule contender to a digest."""

    def __init__(self, digest: DecisionDigest) -> None:
        self._digest = digest

    def on_pod_event(self, event: PodEvent) -> None:
        if event.event == "bound" and event.pod.node is not None:
            self._digest.add("place", event.pod.uid, event.pod.node, event.at_ms)


def main(arguments: list[str]) -> int:
    """Compute all digests, and compare or write them."""
    if arguments not in ([], ["--write"], ["--record"]):
        print(f"found {' '.join(arguments)}; allowed is --write or --record", file=sys.stderr)
        return 2
    if arguments == ["--record"]:
        record_inputs()
    digests = compute_digests()
    if arguments:
        DIGESTS.write_text(json.dumps(digests, indent=2) + "\n")
        print(f"{len(digests)} digests are in {DIGESTS}")
        return 0
    expected: dict[str, str] = json.loads(DIGESTS.read_text())
    different = [
        f"{name}: found {digests.get(name)}; expected {expected.get(name)}"
        for name in sorted(digests.keys() | expected.keys())
        if digests.get(name) != expected.get(name)
    ]
    print("\n".join(different) or f"all {len(digests)} digests are equal")
    return 1 if different else 0


def compute_digests() -> dict[str, str]:
    tasks = list(product(list_contenders(), SEEDS))
    with ProcessPoolExecutor() as pool:
        folded = pool.submit(fold_inputs)
        runs = pool.map(run_contender, *zip(*tasks, strict=True))
        digests = {
            f"closed loop, {name}, seed {seed}": digest
            for (name, seed), digest in zip(tasks, runs, strict=True)
        }
        return {"recorded inputs": folded.result(), **digests}


def run_contender(name: str, seed: int) -> str:
    """Run a contender of the closed loop, and return the digest of its decisions."""
    gc.set_threshold(*GC_THRESHOLDS)
    digest = DecisionDigest()
    make_stages = partial(_ObservedStages, lambda _, outputs: digest.add_outputs(outputs))
    contender = make_factories([name], (), make_stages)[name].make()
    world = World(draw_scenario(CLOSED_LOOP, seed, model_traces()))
    if not isinstance(contender, StageContender):
        world.cluster.observers.append(_BindingObserver(digest))
    _run(world, contender)
    return digest.summarize()


def _run(
    world: World, contender: Contender, operate: Callable[[int], None] = lambda _: None
) -> None:
    """Run a world to its end; call `operate` with the log time before each step."""
    contender.begin(world)
    step_ms = 1000 * world.scenario.parameters.step_s
    for now_ms in range(BEGIN_MS, world.scenario.end_ms, step_ms):
        world.advance(now_ms)
        operate(now_ms)
        contender.step(now_ms)


# --- recorded inputs ------------------------------------------------------------------------------


def fold_inputs() -> str:
    """Fold the recorded inputs, and return the digest of the decisions."""
    digest, stages = DecisionDigest(), LocalPipeline()
    for batch in read_inputs():
        digest.add_outputs(stages.apply(batch))
    return digest.summarize()


def read_inputs() -> Iterator[list[ProducedRecord]]:
    with lzma.open(INPUTS, "rt") as lines:
        for line in lines:
            yield [
                ProducedRecord(topic, key, json.dumps(value).encode(), written_ms)
                for topic, key, value, written_ms in json.loads(line)
            ]


def record_inputs() -> None:
    """Run the default policy with a drain and a pause, and write the inputs of the stages."""
    batches: list[list[ProducedRecord]] = []
    stages = _ObservedStages(lambda records, _: batches.append(list(records)))
    policy = (POLICIES / "loadstream.yaml").read_text()
    contender = StageContender("recorded", policy, stages)
    world = World(draw_scenario(RECORDED, 7, model_traces()))
    messages_by_time = _make_operator_messages(policy, world.scenario.machines[3].name)

    def operate(now_ms: int) -> None:
        for topic, message in messages_by_time.get(now_ms - BEGIN_MS, ()):
            contender.send(topic, message)

    _run(world, contender, operate)
    with lzma.open(INPUTS, "wt") as file:
        for batch in batches:
            line = [
                (record.topic, record.key, json.loads(record.value), record.written_ms)
                for record in batch
            ]
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def _make_operator_messages(policy: str, node: str) -> dict[int, list[tuple[str, Message]]]:
    """Return the messages of an operator, by milliseconds since the beginning."""

    def make_request(action: str, at_ms: int) -> tuple[str, Message]:
        request = {
            "request_id": f"{action}-request",
            "cluster": CLUSTER,
            "action": action,
            "node": node,
            "requested_at_ms": BEGIN_MS + at_ms,
        }
        return "migration-requests", MigrationRequest.model_validate(request)

    def make_policy_record(
        document: str, at_ms: int, *, paused: bool = False
    ) -> tuple[str, Message]:
        return "policies", PolicyRecord(
            cluster=CLUSTER, document=document, paused=paused, applied_at_ms=BEGIN_MS + at_ms
        )

    drain_ms, pause_ms, policy_ms, undrain_ms = (
        round(hours * HOUR_MS) for hours in (1.5, 2.0, 2.25, 3.0)
    )
    koordinator = (POLICIES / "koordinator-lownodeload-75.yaml").read_text()
    return {
        drain_ms: [make_request("drain", drain_ms)],
        pause_ms: [make_policy_record(policy, pause_ms, paused=True)],
        policy_ms: [make_policy_record(koordinator, policy_ms)],
        undrain_ms: [make_request("undrain", undrain_ms), make_policy_record(policy, undrain_ms)],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
