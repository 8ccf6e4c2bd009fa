"""Scenarios: which machines there are, what they use, which pods come, and under which policy.

`simulated_scenario` is the seeded model, `trace_scenario` replays published traces. Both last as
many simulated hours as wanted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.policy import Policy, read_policy
from simulation.cluster.alibaba import MachineTrace, MachineUsage, read_machine_usage
from simulation.cluster.fitted import ALIBABA_2018
from simulation.cluster.load import LoadModel
from simulation.cluster.machines import (
    BASE_SHARE,
    Machine,
    cores_of_pods,
    make_machines,
    residents_of,
)
from simulation.cluster.openb import Task, TaskList, plans_of, read_tasks
from simulation.cluster.pods import GIB, PodPlan
from simulation.cluster.readings import Readings, model_readings
from simulation.cluster.replay import replay_readings
from simulation.cluster.surges import Surge, draw_surges, with_surges
from simulation.cluster.workload import make_pods

#: Name of the demo's cluster.
CLUSTER = "demo"
#: The scenario begins at this time, a midnight: 2026-03-02 00:00 UTC. Its days are not today, so
#: its records cannot be taken for measured ones.
BEGIN_MS = 1_772_409_600_000
#: Time between two samples of a machine; of traced ones about that.
SAMPLE_PERIOD_S = 120.0
#: Before that no pod asks for a node: the windows of the percentiles fill.
WARM_UP_MS = 30 * 60_000
#: The second act begins after this share of the run: from then on evictions are carried out.
FIRST_ACT_SHARE = 1 / 3
#: The same with traces: before the busiest hours of the machines' day, the seventh and eighth.
FIRST_ACT_SHARE_OF_TRACES = 0.2
#: Surges begin a moment later, and are over before the end by this share of the run.
_SURGES_AFTER, _SURGES_BEFORE_END = 0.04, 0.06
#: Size of the traced machines. Cores are published; memory is only given in percent, so it is that
#: of most machines of 96 cores without GPUs in the OpenB cluster.
TRACE_MILLICORES, TRACE_MEMORY_BYTES = 96_000, 512 * GIB

#: Tasks of a trace that a node gets in a day: all of the OpenB list for 40 nodes and a day. A
#: shorter run, or one with fewer nodes, has fewer of them, taken evenly from the whole list.
TASKS_PER_NODE_DAY = 27.2

_POLICIES = Path(__file__).parent / "policies"

#: What makes a policy of the first act dry.
_OBSERVES = re.compile(r"^mode: observe$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that a run is made of."""

    notes: tuple[str, ...]
    """What is run and where it comes from, in sentences."""
    complaints: tuple[str, ...]
    """Rows of traces that could not be read."""
    machines: tuple[Machine, ...]
    readings: Readings
    """Base load."""
    plans: tuple[PodPlan, ...]
    """Pods in the order in which they ask for a node."""
    policy_text: str
    begin_ms: int
    end_ms: int
    first_act_share: float = FIRST_ACT_SHARE
    """Share of the run in which evictions are dry runs."""
    surges: tuple[Surge, ...] = ()
    """When and where pods that run already use more."""

    @property
    def policy(self) -> Policy:
        """The policy as engines read it."""
        return read_policy(self.policy_text)

    @property
    def enforce_ms(self) -> int:
        """When the second act begins: evictions are carried out from then on."""
        return self.begin_ms + round((self.end_ms - self.begin_ms) * self.first_act_share)

    @property
    def enforcing_text(self) -> str:
        """The policy of the second act; raises ValueError where that of the first does not observe."""
        text, found = _OBSERVES.subn("mode: enforce", self.policy_text, count=1)
        if not found:
            raise ValueError("the policy has no line `mode: observe`, so there is no second act")
        return text


def simulated_scenario(nodes: int, seed: int, hours: float) -> Scenario:
    """The seeded model."""
    end_ms = BEGIN_MS + round(hours * 3_600_000)
    machines = make_machines(nodes, seed, ALIBABA_2018, BEGIN_MS)
    mean_cores = cores_of_pods(machines, ALIBABA_2018)
    notes = [
        f"load: a seeded model of a co-located cluster, {nodes} nodes, seed {seed}; its parameters are"
        " fitted to the Alibaba 2018 trace (16 machines, 8 days)"
    ]
    model = LoadModel(ALIBABA_2018, seed, SAMPLE_PERIOD_S)
    plans = make_pods(seed, BEGIN_MS + WARM_UP_MS, end_ms, mean_cores)
    notes.append(f"pods: {len(plans)} of nine kinds, drawn from the seed")
    span_ms = end_ms - BEGIN_MS
    surges = draw_surges(
        machines,
        seed,
        BEGIN_MS + round((FIRST_ACT_SHARE + _SURGES_AFTER) * span_ms),
        BEGIN_MS + round((1.0 - _SURGES_BEFORE_END) * span_ms),
    )
    notes.append(
        "two acts: evictions are dry runs for the first third of the time, then carried out; the pods of"
        f" {len(surges)} nodes surge then"
    )
    readings = model_readings(model, machines, BEGIN_MS, end_ms, BASE_SHARE)
    return Scenario(
        notes=tuple(notes),
        complaints=(),
        machines=machines,
        readings=with_surges(readings, machines, surges),
        surges=surges,
        plans=tuple(plans),
        policy_text=(_POLICIES / "simulated.yaml").read_text(encoding="utf-8"),
        begin_ms=BEGIN_MS,
        end_ms=end_ms,
    )


def trace_scenario(directory: Path, nodes: int, seed: int, hours: float) -> Scenario:
    """Traced machines and tasks from the files of a directory.

    Raises TraceError where a file is missing or of no use.
    """
    usage = read_machine_usage(directory)
    tasks = read_tasks(directory)
    every = max(1, round(SAMPLE_PERIOD_S * _readings_per_s(usage.machines)))
    end_ms = BEGIN_MS + round(hours * 3_600_000)
    width = max(2, len(str(nodes)))
    machines = tuple(_traced_machine(f"node-{n:0{width}}") for n in range(1, nodes + 1))
    taken = _taken(tasks.tasks, nodes * (end_ms - BEGIN_MS) / 86_400_000)
    plans = plans_of(taken, BEGIN_MS + WARM_UP_MS, end_ms, seed)
    policy_text = (_POLICIES / "trace.yaml").read_text(encoding="utf-8")
    return Scenario(
        notes=(
            *_trace_notes(usage, tasks, len(taken), nodes, read_policy(policy_text)),
            "two acts: evictions are dry runs for the first fifth of the time, then carried out; what"
            " machines used is carried by six pods each, as the trace names none",
            *([f"one of every {every} readings is replayed"] if every > 1 else []),
        ),
        complaints=_complaints(usage, tasks),
        machines=machines,
        readings=replay_readings(
            [_every(machine, every) for machine in usage.machines],
            nodes,
            TRACE_MILLICORES,
            TRACE_MEMORY_BYTES,
            BEGIN_MS,
            end_ms,
            seed,
        ),
        plans=tuple(plans),
        policy_text=policy_text,
        begin_ms=BEGIN_MS,
        end_ms=end_ms,
        first_act_share=FIRST_ACT_SHARE_OF_TRACES,
    )


def _traced_machine(name: str) -> Machine:
    """The trace does not say what ran there: pods of our own carry the cores, none the memory."""
    size = (TRACE_MILLICORES, TRACE_MEMORY_BYTES)
    residents = residents_of(name, "busy", *size, BEGIN_MS, with_memory=False)
    return Machine(name, *size, residents=residents)


def _taken(tasks: Sequence[Task], node_days: float) -> Sequence[Task]:
    count = min(len(tasks), max(1, round(TASKS_PER_NODE_DAY * node_days)))
    return [tasks[index * len(tasks) // count] for index in range(count)]


def _every(machine: MachineTrace, every: int) -> MachineTrace:
    return MachineTrace(
        machine.name,
        machine.times_s[::every],
        machine.cpu_percent[::every],
        machine.memory_percent[::every],
    )


def _readings_per_s(machines: Sequence[MachineTrace]) -> float:
    """Readings of one machine in a second of the trace, on average."""
    span_s = sum(int(m.times_s[-1] - m.times_s[0]) + 60 for m in machines)
    return sum(len(m.times_s) for m in machines) / span_s


def _trace_notes(
    usage: MachineUsage, tasks: TaskList, taken: int, nodes: int, policy: Policy
) -> tuple[str, ...]:
    memory = sum(m.memory_percent.mean() for m in usage.machines) / len(usage.machines)
    threshold = policy.load_aware.usage_thresholds["memory"]
    repeated = (
        f", repeated with shifts in time to {nodes} nodes"
        if nodes > len(usage.machines)
        else f", of which {nodes} are used"
        if nodes < len(usage.machines)
        else ""
    )
    cut = f" (only the first {usage.rows} rows were read)" if usage.cut else ""
    without = f"{usage.invalid} readings without a valid value were left out"
    again = f", {usage.repeated} of a second read before" if usage.repeated else ""
    of_them = "" if taken == len(tasks.tasks) else f"{taken} evenly taken from "
    return (
        f"load: {usage.file}, {len(usage.machines)} machines{repeated}{cut}; {without}{again}",
        f"pods: {tasks.file}, {of_them}{len(tasks.tasks)} tasks; {tasks.with_gpus} of"
        f" {tasks.rows} want GPUs and were left out",
        f"policy: memory of these machines averages {memory:.0f} %, so a node may be filled up to"
        f" {threshold} % of it (the default is 95 %)",
    )


def _complaints(usage: MachineUsage, tasks: TaskList) -> tuple[str, ...]:
    lines: list[str] = []
    for malformed in (usage.malformed, tasks.malformed):
        lines += malformed.reported
        if malformed.count:
            lines.append(f"{malformed.file}: {malformed.count} rows could not be read")
    return tuple(lines)
