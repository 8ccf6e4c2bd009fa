"""Run random histories, or one that was kept; `make fuzz SEEDS=a-b` is short for the former."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from connectors.process.terminal import echo
from tests.histories.history import LENGTH, Event, History, draw_history, load, save
from tests.histories.run import Report, run


def shrink(report: Report, seconds: float) -> Report:
    """Return the report of the shortest history found within so many seconds of CPU.

    Events are left out by delta debugging: Zeller and Hildebrandt, "Simplifying and Isolating
    Failure-Inducing Input" (2002). Whole kinds of events are left out first, which takes few runs.
    """
    search = _Search(report, time.process_time() + seconds)
    search.try_events(report.history.events[: report.event])
    search.leave_out_kinds()
    search.leave_out_events()
    return search.best


class _Search:
    def __init__(self, report: Report, end_s: float) -> None:
        assert report.failure is not None
        self.best, self._kind, self._end_s = report, report.failure.kind, end_s

    @property
    def events(self) -> Sequence[Event]:
        return self.best.history.events

    def is_over(self) -> bool:
        return time.process_time() >= self._end_s

    def try_events(self, events: Sequence[Event]) -> bool:
        """Tell whether these events fail in the same way; if so, they are the best so far."""
        report = run(History(self.best.history.seed, tuple(events)))
        if report.failure is None or report.failure.kind != self._kind:
            return False
        self.best = replace(
            report, history=replace(report.history, events=report.history.events[: report.event])
        )
        return True

    def leave_out_kinds(self) -> None:
        for kind in sorted({event.kind for event in self.events}):
            if self.is_over():
                return
            self.try_events([event for event in self.events if event.kind != kind])

    def leave_out_events(self) -> None:
        """Leave out ever smaller pieces."""
        size = len(self.events) // 2
        while size and not self.is_over():
            shrunk = False
            start = 0
            while start < len(self.events) and not self.is_over():
                if self.try_events([*self.events[:start], *self.events[start + size :]]):
                    shrunk = True
                else:
                    start += size
            if size == 1 and not shrunk:
                return
            size = max(1, size // 2)


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
