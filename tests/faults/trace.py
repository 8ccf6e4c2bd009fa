"""A trace: a small scenario, and what goes wrong in it, as plain data drawn from a seed."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.policies import NAMES

STEP_S = 10
#: Two partitions, of which the cluster has one: samples of its nodes come in both.
PARTITIONS = 2

#: Kinds of faults with their shares: how often each is drawn, for how long at most in seconds, and
#: which share of records it strikes at most.
#: A watch that misses or holds back events catches up before a reservation of 300 s can end, as one
#: must: what nobody reports, nobody can know.
KINDS: dict[str, tuple[int, int, float]] = {
    # Samples, on their way from the agents.
    "samples are lost": (2, 600, 0.9),
    "samples are late": (2, 600, 0.9),
    "samples come twice": (1, 600, 0.5),
    "samples are reordered": (1, 600, 0.5),
    "samples stop": (1, 600, 0.0),
    "samples stand still": (2, 900, 1.0),
    "samples lie": (3, 900, 1.0),
    # State and requests, on their way from the watch.
    "watch is blind": (2, 40, 0.0),
    "watch is late": (2, 40, 0.0),
    "watch lists again": (1, 0, 0.0),
    "records come twice": (1, 300, 0.5),
    # Workers.
    "cluster worker stops": (4, 120, 0.0),
    "cluster worker fails over": (2, 0, 0.0),
    "cluster worker stands still": (1, 60, 0.0),
    "aggregate worker stops": (2, 200, 0.0),
    "metrics lag": (2, 300, 0.0),
    "records are delivered again": (2, 300, 0.5),
    # The cluster.
    "node dies": (3, 900, 0.0),
    "node is cordoned": (2, 600, 0.0),
    "pod is withdrawn": (2, 0, 0.0),
    # Sinks.
    "sink fails": (2, 300, 0.9),
    "sink forgets to report": (2, 300, 0.5),
    "sink lags": (2, 400, 0.0),
    "sink starts again": (2, 0, 0.0),
    "commands come twice": (1, 300, 0.5),
    # Users.
    "policy changes": (4, 0, 0.0),
    "cluster is paused": (1, 300, 0.0),
}
#: Where a worker stops: before or after each of its writes.
STOPS = ("applied", "journaled", "publishing", "published", "written")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    number: int
    """Names its random numbers: they are the same whatever other faults there are."""
    kind: str
    at_s: int
    for_s: int = 0
    share: float = 0.0
    """Of the records or commands that it strikes."""
    which: int = 0
    """Node, pod or partition, modulo how many there are; or a factor, in thousandths."""
    name: str = ""
    """A policy, or where a worker stops."""

    def line(self) -> str:
        """The fault in a line."""
        said = [f"{self.at_s:5} s: {self.kind}"]
        said += [f"for {self.for_s} s"] if self.for_s else []
        said += [f"share {self.share:.2f}"] if self.share else []
        said += [f"[{self.name}]"] if self.name else []
        return " ".join([*said, f"(which {self.which})"])


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything that a run depends on."""

    seed: int
    nodes: int
    length_s: int
    """Time in which pods come and things go wrong; then it is quiet, and all is put in order."""
    load: float
    fill: float
    policy: str
    """Name of the first policy."""
    faults: tuple[Fault, ...] = ()
    pods: int | None = None
    """Only this many ask for a node; none: all of the scenario."""
    quiet: bool = True
    """What must hold in the end is looked at too."""

    def lines(self) -> Iterator[str]:
        """The trace in a line each."""
        pods = "all pods" if self.pods is None else f"{self.pods} pods"
        yield (
            f"{self.nodes} nodes, {pods}, {self.length_s} s, load {self.load:.2f}, fill "
            f"{self.fill:.2f}, policy {self.policy}, {len(self.faults)} faults"
        )
        yield from (fault.line() for fault in self.faults)


def draw(seed: int) -> Trace:
    """The trace of a seed."""
    random = Random(f"faults {seed}")
    length_s = STEP_S * random.randint(60, 150)
    kinds, weights = list(KINDS), [weight for weight, _, _ in KINDS.values()]
    count = random.choice((2, 5, 10, 20))
    faults = [
        _fault(random, number, kind, length_s)
        for number, kind in enumerate(random.choices(kinds, weights, k=count))
    ]
    return Trace(
        seed=seed,
        nodes=random.randint(4, 7),
        length_s=length_s,
        load=round(random.uniform(0.3, 0.7), 2),
        fill=round(random.uniform(0.6, 0.95), 2),
        policy=random.choice(NAMES),
        faults=tuple(sorted(faults, key=lambda each: (each.at_s, each.number))),
    )


def _fault(random: Random, number: int, kind: str, length_s: int) -> Fault:
    _, longest_s, most = KINDS[kind]
    fault = Fault(
        number,
        kind,
        at_s=STEP_S * random.randrange(length_s // STEP_S),
        for_s=STEP_S * random.randint(1, longest_s // STEP_S) if longest_s else 0,
        share=round(random.uniform(0.1, most), 2) if most else 0.0,
        which=random.randrange(10_000),
    )
    if kind == "policy changes":
        return replace(fault, name=random.choice(NAMES))
    if kind.endswith("worker stops"):
        return replace(fault, name=random.choice(STOPS))
    return fault


def save(path: Path, trace: Trace, failure: str) -> None:
    """Write a trace as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"failure": failure, **asdict(trace)}, indent=1) + "\n")


def load(path: Path) -> Trace:
    """Read what `save` wrote."""
    fields: dict[str, Any] = json.loads(path.read_text())
    del fields["failure"]
    faults = tuple(Fault(**each) for each in fields.pop("faults"))
    return Trace(**fields, faults=faults)
