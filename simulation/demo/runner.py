"""Runs a day through a real worker, and again under other contenders in this process.

The broker and the worker end with the demo, even after an error.
"""

import hashlib
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from connectors.brokers.embedded import EmbeddedBroker
from connectors.process.signals import terminable
from schemas.messages.commands import EvictionCommand
from schemas.messages.decisions import PlacementDecision
from schemas.settings.announcement import AlreadyAnnounced, announce
from schemas.settings.connection import ENV_PREFIX
from schemas.topics.codec import decode
from simulation.closed_loop.comparison import Comparison
from simulation.closed_loop.contenders import make_factories
from simulation.closed_loop.finished_runs import Run
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.runs import execute_run
from simulation.closed_loop.scenario import Array, Scenario, draw_scenario
from simulation.closed_loop.stage_contender import StageContender
from simulation.closed_loop.traces import Traces
from simulation.closed_loop.world import Contender, World
from simulation.cluster.cluster import Eviction, Observer
from simulation.demo.evidence import Evidence
from simulation.demo.view import OUTPUTS_SHOWN, Display, RunState
from simulation.named_scenarios import SCENARIOS
from simulation.processes import make_environment, make_worker, run_processes
from simulation.worker_stages import LockStepStages
from streams.in_process.pipeline import LocalPipeline

CLUSTER = "demo"
OURS, BY_REQUESTS, KOORDINATOR = "loadstream", "least-allocated", "koordinator-lownodeload-75"
#: Files of the outputs of the worker's cluster stage, by topic.
OUTPUT_FILES = {
    "placement-decisions": "decisions.jsonl",
    "eviction-commands": "evictions.jsonl",
    "status": "status.jsonl",
}


@dataclass(frozen=True, slots=True)
class DemoResult:
    comparison: Comparison
    digest: str
    """Digest of all outputs of the worker's cluster stage, in their order."""
    refused: tuple[str, ...]
    """Sentences about the first records that the worker refused."""
    evidence: Evidence


def choose_parameters(scenario: str, nodes: int, hours: float) -> Parameters:
    """Return the scenario at its lowest load, with turns so long that half a day takes a minute."""
    loads, differing = SCENARIOS[scenario]
    return Parameters(
        scenario=scenario,
        nodes=nodes,
        hours=hours,
        load=loads[0] / 100,
        sample_s=120,
        step_s=60,
        turn_s=300,
        **differing,
    )


def run(
    parameters: Parameters,
    seed: int,
    traces: Traces,
    output: Path,
    display: Display,
) -> DemoResult:
    """Run a day under all contenders, ours first; write the worker's decisions to `output`.

    Raises ProcessDied, WorkerSilent, BrokerUnavailable and ImpossibleScenario.
    """
    scenario = draw_scenario(parameters, seed, traces, CLUSTER)
    with terminable(code=130):  # there is no result, as after Ctrl-C
        ours, digest, contender = _run_ours(scenario, traces.day, output, display)
        others: list[Contender] = [
            make_factories([BY_REQUESTS], ())[BY_REQUESTS].make(),
            StageContender(KOORDINATOR, read_policy_text(KOORDINATOR), LocalPipeline()),
        ]
        runs = [ours]
        for other in others:
            display.print(f"running the same pods under {other.name} ...")
            runs.append(execute_run(scenario, traces.day, other))
    comparison = Comparison(parameters, traces.files, tuple(runs))
    return DemoResult(
        comparison, digest, tuple(contender.dead_letters), contender.collect_evidence()
    )


def read_policy_text(name: str) -> str:
    return (Path(__file__).parent / "policies" / f"{name}.yaml").read_text(encoding="utf-8")


def read_outputs(output: Path) -> tuple[list[EvictionCommand], list[PlacementDecision]]:
    """Return the commands and decisions that a run has written to `output`."""
    commands, decisions = [], []
    for topic in ("eviction-commands", "placement-decisions"):
        for line in (output / OUTPUT_FILES[topic]).read_bytes().splitlines():
            message = decode(topic, line)
            if isinstance(message, EvictionCommand):
                commands.append(message)
            elif isinstance(message, PlacementDecision):
                decisions.append(message)
    return commands, decisions


def _run_ours(
    scenario: Scenario, day: str, output: Path, display: Display
) -> tuple[Run, str, "_DisplayedContender"]:
    policy = read_policy_text(OURS)
    (output / "policy.yaml").write_text(policy, encoding="utf-8")
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        hint = _announce(stack, broker.bootstrap_servers)
        settings = {
            **make_environment(broker.settings),
            "LOADSTREAM_WORKER_CLOCK": "external",
            # The embedded broker does not wake a waiting fetch.
            "LOADSTREAM_WORKER_FETCH_WAIT_MS": "10",
        }
        (process,) = stack.enter_context(run_processes([make_worker(output, settings)]))
        files = {
            topic: stack.enter_context((output / name).open("wb"))
            for topic, name in OUTPUT_FILES.items()
        }
        digest = hashlib.sha256()
        latest: deque[tuple[str, bytes]] = deque(maxlen=OUTPUTS_SHOWN)

        def observe(topic: str, value: bytes) -> None:
            digest.update(topic.encode() + value)
            files[topic].write(value + b"\n")
            latest.append((topic, value))

        stages = stack.enter_context(
            LockStepStages(broker.settings, CLUSTER, process.check, observe)
        )
        stack.enter_context(display)
        ours = _DisplayedContender(policy, stages, display, latest, hint)
        return execute_run(scenario, day, ours), digest.hexdigest(), ours


class _DisplayedContender(StageContender, Observer):
    """A contender whose decisions come from the worker, and whose run is displayed."""

    def __init__(
        self,
        policy: str,
        stages: LockStepStages,
        display: Display,
        latest: deque[tuple[str, bytes]],
        hint: str,
    ) -> None:
        super().__init__(OURS, policy, stages, partition=stages.partition)
        self._display, self._latest, self._hint = display, latest, hint
        self._evictions: list[Eviction] = []
        self._demand: list[Array] = []

    def begin(self, world: World) -> None:
        self._display.print("the worker is starting ...")
        world.cluster.observers.append(self)
        super().begin(world)
        self._began_s = time.monotonic()

    def step(self, now_ms: int) -> None:
        super().step(now_ms)
        real_s = time.monotonic() - self._began_s
        state = RunState(
            self._world, now_ms, real_s, len(self._evictions), self._latest, self._hint
        )
        self._demand.append(state.demand[:, 0])
        self._display.show(state)

    def on_eviction(self, eviction: Eviction) -> None:
        self._evictions.append(eviction)

    def collect_evidence(self) -> Evidence:
        """Return the evidence of the run, whose steps are minutes."""
        scenario = self._world.scenario
        begin_ms = scenario.measured_ms
        measured = tuple(item for item in self._evictions if item.at_ms >= begin_ms)
        return Evidence(scenario, np.array(self._demand), measured)


def _announce(stack: ExitStack, bootstrap_servers: str) -> str:
    """Announce the broker to other commands; return the command that shows the decisions."""
    tail_command = "loadstream topic tail placement-decisions"
    try:
        stack.enter_context(announce(bootstrap_servers))
    except (AlreadyAnnounced, OSError):
        tail_command = f"{ENV_PREFIX}BOOTSTRAP_SERVERS={bootstrap_servers} {tail_command}"
    return f"in a second terminal: {tail_command}"
