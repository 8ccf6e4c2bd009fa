"""Run random histories, or one that was kept; `make fuzz SEEDS=a-b` is short for the former."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from connectors.process.terminal import echo
from tests.histories.history import LENGTH, draw_history, load, save
from tests.histories.run import Report, run
from tests.histories.shrink import shrink


def main(arguments: Sequence[str]) -> int:
    """Return 1 if a history fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--seeds", type=_parse_seeds, default=range(1, 51), help="one, or from-to")
    parser.add_argument("--events", type=int, default=LENGTH, help="events of each history")
    parser.add_argument("--file", type=Path, help="a kept history to run again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds per kind of failure")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="kept here")
    options = parser.parse_args(arguments)
    if options.file is not None:
        report = run(load(options.file))
        echo(_describe(report))
        return 0 if report.failure is None else 1
    start_s, counts, kinds = time.monotonic(), Counter[str](), Counter[str]()
    for report in _run_all(options.seeds, options.events, options.jobs):
        counts += report.counts
        if report.failure is None:
            continue
        kinds[report.failure.kind] += 1
        seed = report.history.seed
        echo(f"FAILED seed {seed}, event {report.event}: {report.failure}")
        echo(f"  again: {_COMMAND} --seeds {seed} --events {options.events}")
        if kinds[report.failure.kind] == 1:
            short = shrink(report, options.shrink)
            path = options.failures / f"{seed}.json"
            save(path, short.history, str(short.failure))
            echo(f"  shrunk: {_COMMAND} --file {path}\n{_describe(short)}")
    seconds = time.monotonic() - start_s
    for name in sorted(counts):
        echo(f"{counts[name]:9,} {name}")
    result = f"{kinds.total()} failed, in {len(kinds)} ways" if kinds else "none failed"
    echo(f"{len(options.seeds)} histories in {seconds:.0f} s; {result}")
    return 1 if kinds else 0


_COMMAND = f"{os.path.relpath(sys.executable)} -m tests.histories"


def _describe(report: Report) -> str:
    lines = [f"    {number:4} {kind}" for number, kind in report.history.events]
    return "\n".join([*lines, f"    {report.failure or 'no failure'}"])


def _run_all(seeds: Sequence[int], events: int, jobs: int) -> Iterator[Report]:
    """Yield reports as histories end; a single job needs no other process."""
    if jobs == 1 or len(seeds) == 1:
        yield from (_run_seed(seed, events) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        futures = [pool.submit(_run_seed, seed, events) for seed in seeds]
        for future in as_completed(futures):
            yield future.result()


def _run_seed(seed: int, events: int) -> Report:
    report = run(draw_history(seed, events))
    report.records.clear()
    return report


def _parse_seeds(text: str) -> range:
    first, _, last = text.partition("-")
    try:
        seeds = range(int(first), int(last or first) + 1)
    except ValueError:
        seeds = range(0)
    if not seeds:
        raise argparse.ArgumentTypeError(f"found {text!r}; expected a seed, or two as in 1-50")
    return seeds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
