"""Live through traces of seeds, or one that was kept; `make fuzz SEEDS=a-b` is the first in short."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from connectors.process.terminal import echo
from tests.faults.life import Report, live
from tests.faults.shrink import shrunk
from tests.faults.trace import draw, load, save
from tests.fuzz.seeds import seeds

#: Failing traces are kept here.
FAILURES = Path("fuzz-failures")


def main(arguments: Sequence[str]) -> int:
    """Answers with 1 if a trace has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seeds", type=seeds, default=range(1, 51), help="from-to, or one")
    parser.add_argument("--file", type=Path, help="a kept trace to live through again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument(
        "--shrink", type=float, default=90.0, help="seconds of CPU for each kind of failure"
    )
    parser.add_argument("--failures", type=Path, default=FAILURES, help="where they are kept")
    options = parser.parse_args(arguments)
    if options.file is not None:
        return _again(options.file)
    began_s, total, kinds = time.monotonic(), Counter[str](), Counter[str]()
    for report in _reports(options.seeds, options.jobs):
        total.update(report.counts)
        if report.failure is None:
            continue
        kinds[report.failure.kind] += 1
        seed = report.trace.seed
        echo(f"FAILED seed {seed}, second {report.second}: {report.failure}")
        echo(f"  again: make fuzz SEEDS={seed}")
        if kinds[report.failure.kind] == 1:
            _keep(report, options.failures, options.shrink)
    seconds = time.monotonic() - began_s
    for name in sorted(total):
        echo(f"{total[name]:9,} {name}")
    count = len(options.seeds)
    failed = f"{kinds.total()} failed, in {len(kinds)} ways" if kinds else "none failed"
    echo(f"{count} seeds in {seconds:.0f} s, {count / seconds:.2f} seeds/s; {failed}")
    return 1 if kinds else 0


def _reports(of: Sequence[int], jobs: int) -> Iterator[Report]:
    """Reports as they come; one process needs no others."""
    if jobs == 1 or len(of) == 1:
        yield from (_live(seed) for seed in of)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(_live, seed) for seed in of]):
            yield future.result()


def _live(seed: int) -> Report:
    return live(draw(seed))


def _keep(report: Report, folder: Path, seconds: float) -> None:
    """Make a trace short, print and keep it."""
    short = shrunk(report, seconds)
    trace = short.trace
    path = folder / f"faults-{trace.seed}.json"
    save(path, trace, str(short.failure))
    lines = "\n    ".join(trace.lines())
    echo(f"  shrunk to second {short.second}: {short.failure}\n    {lines}")
    echo(f"  the short one: {os.path.relpath(sys.executable)} -m tests.faults --file {path}")


def _again(path: Path) -> int:
    report = live(load(path))
    echo("\n".join(report.trace.lines()))
    echo(f"second {report.second}: {report.failure or 'no failure'}")
    return 0 if report.failure is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
