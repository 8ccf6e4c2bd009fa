"""Try random histories, or one that was kept; `make fuzz-records` is the first in short."""

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from connectors.process.terminal import echo
from tests.fuzz.campaign import Outcome, explore, repeat
from tests.fuzz.coverage import Coverage
from tests.fuzz.history import STAGES, History, StageName, load, save
from tests.fuzz.seeds import seeds
from tests.fuzz.shorten import shortened

#: Records of one history: long enough for migrations that time out and pools that are held back.
RECORDS = 2_000
#: Failing histories are kept here.
FAILURES = Path("fuzz-failures")


def main(arguments: Sequence[str]) -> int:
    """Answers with 1 if a history has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--seeds", type=seeds, default=range(1, 51), help="from-to; one history each"
    )
    parser.add_argument("--stage", choices=STAGES, help="one stage; by default both")
    parser.add_argument("--records", type=int, default=RECORDS, help="records of each history")
    parser.add_argument("--file", type=Path, help="a kept history to try again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument(
        "--shorten", type=float, default=60.0, help="seconds for each kind of failure"
    )
    parser.add_argument("--failures", type=Path, default=FAILURES, help="where they are kept")
    options = parser.parse_args(arguments)
    if options.file is not None:
        return _again(options.file)
    stages = STAGES if options.stage is None else (options.stage,)
    tasks = [(stage, seed, options.records) for seed in options.seeds for stage in stages]
    total, kinds = Coverage(), dict[str, int]()
    began_s = time.monotonic()
    for outcome in _explored(tasks, options.jobs):
        total.add(outcome.coverage)
        if outcome.failure is None:
            continue
        kind = outcome.failure.kind
        kinds[kind] = kinds.get(kind, 0) + 1
        echo(_text(outcome, options.records))
        if kinds[kind] == 1:
            echo(_kept(outcome, options.failures, options.shorten))
    seconds = time.monotonic() - began_s
    echo("\n".join(total.lines()))
    echo(
        f"{len(tasks)} histories in {seconds:.0f} s, {total.records / seconds:.0f} records/s; ",
        nl=False,
    )
    echo(f"{sum(kinds.values())} failed, in {len(kinds)} ways" if kinds else "none failed")
    return 1 if kinds else 0


def _explored(tasks: Sequence[tuple[StageName, int, int]], jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come; one process needs no others."""
    if jobs == 1 or len(tasks) == 1:
        yield from (explore(*task) for task in tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(explore, *task) for task in tasks]):
            yield future.result()


def _text(outcome: Outcome, records: int) -> str:
    stage, seed = outcome.history.stage, outcome.history.seed
    return (
        f"FAILED {stage} stage, seed {seed}, record {len(outcome.history.steps)}: {outcome.failure}\n"
        f"  again: {_command()} --seeds {seed}-{seed} --stage {stage} --records {records}"
    )


def _kept(outcome: Outcome, folder: Path, seconds: float) -> str:
    """Shorten a history, keep it, and say how it is tried again."""
    assert outcome.failure is not None
    short = shortened(outcome.history, outcome.failure.kind, seconds)
    failure = repeat(short).failure
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{short.stage}-{short.seed}.jsonl"
    save(path, short, str(failure))
    return f"  shortened to {len(short.steps)} records: {_command()} --file {path}"


def _again(path: Path) -> int:
    history: History = load(path)
    outcome = repeat(history)
    what = f"{len(history.steps)} records of the {history.stage} stage"
    echo(f"{what}: {outcome.failure or 'no failure'}")
    return 0 if outcome.failure is None else 1


def _command() -> str:
    return f"{os.path.relpath(sys.executable)} -m tests.fuzz"


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # stages log defects, which are reported here
    sys.exit(main(sys.argv[1:]))
