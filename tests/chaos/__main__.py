"""`python -m tests.chaos --seed N --runs K`: chaos runs on a real Kafka, with a verdict for each run.

Run i has seed N + i, and the scenarios repeat in order. A failed run prints the command that repeats it
and keeps its logs.
"""

import argparse
import asyncio
import logging
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

from tests.chaos.plan import SCENARIOS, Plan
from tests.chaos.run import PARTITIONS, Outcome, run

#: Characters of a problem that are shown.
_PROBLEM_CHARACTERS = 4_000


def main() -> int:
    """Return 0 if all runs pass, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="seed of the first run")
    parser.add_argument("--runs", type=int, default=len(SCENARIOS), help="how many runs")
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument(
        "--scenario", choices=names, help="this one only; default: one after the other"
    )
    arguments = parser.parse_args()
    # Ends all workers, also after an error or a signal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    outcomes: list[Outcome] = []
    failed = []
    for number in range(arguments.runs):
        seed = arguments.seed + number
        name = arguments.scenario or names[seed % len(names)]
        outcome = _run_one(seed, name)
        problems = [outcome] if isinstance(outcome, str) else outcome.verdict.problems
        if problems:
            failed.append((seed, name, problems))
        if not isinstance(outcome, str):
            outcomes.append(outcome)
    endings = sum(len(outcome.ended) for outcome in outcomes)
    in_flight = sum(outcome.in_flight for outcome in outcomes)
    migrating = sum(outcome.migrating for outcome in outcomes)
    print(
        f"{in_flight} of {endings} kills landed with a batch in flight, {migrating} with "
        "migrations live"
    )
    figures = sum((outcome.verdict.figures for outcome in outcomes), Counter[str]())
    print(
        f"{figures['evictions commanded']} evictions were commanded, "
        f"{figures['evictions executed']} executed"
    )
    for seed, name, problems in failed:
        # Repeat the reasons at the end of a long output.
        print(f"FAILED: {problems[0][:_PROBLEM_CHARACTERS]}")
        print(f"again: make chaos SEED={seed} RUNS=1 SCENARIO={name}")
    if in_flight * 2 < endings:
        print("FAILED: fewer than half of the kills landed with a batch in flight")
        return 1
    print(f"{arguments.runs - len(failed)} of {arguments.runs} runs are as they must be")
    return 1 if failed else 0


def _run_one(seed: int, name: str) -> Outcome | str:
    """Do and report one run; return the reason if it has no verdict."""
    scenario = next(entry for entry in SCENARIOS if entry.name == name)
    directory = Path(tempfile.mkdtemp(prefix=f"chaos-{name}-{seed}-"))
    # Clients log unavailable brokers at length, and here brokers are unavailable on purpose.
    logging.basicConfig(filename=directory / "client.log", force=True)
    print(f"run with seed {seed}, {name}:", flush=True)
    try:
        plan = Plan(seed, scenario, PARTITIONS)
        outcome = asyncio.run(run(plan, directory, lambda line: print(f"  {line}", flush=True)))
    except Exception as error:
        traceback.print_exc()
        print(f"  no verdict; logs are in {directory}", flush=True)
        return f"{type(error).__name__}: {error}"
    for problem in outcome.verdict.problems:
        print(f"  WRONG: {problem[:_PROBLEM_CHARACTERS]}")
    print(f"  {', '.join(f'{count} {name}' for name, count in outcome.verdict.figures.items())}")
    print(
        f"  {outcome.verdict.figures['evictions commanded']} evictions commanded, "
        f"{outcome.verdict.figures['evictions executed']} executed; {outcome.migrating} of "
        f"{len(outcome.ended)} kills landed with migrations live"
    )
    print(f"  fullest node: {outcome.verdict.fullest_percent} % of its CPU taken")
    print(f"  {', '.join(f'{name} {seconds:.0f} s' for name, seconds in outcome.seconds.items())}")
    if outcome.verdict.problems:
        print(f"  logs are in {directory}", flush=True)
    else:
        shutil.rmtree(directory)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
