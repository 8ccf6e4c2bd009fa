"""The result as tables: of contenders, of calibration, of parameters; one as lines of a terminal."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict

from connectors.queries.rebalancing_wording import count_text
from simulation.closed_loop.comparison import Comparison, means, spreads

#: Columns: figure, heading, decimals.
COLUMNS = (
    ("hot_cpu_minutes", "hot CPU", 0),
    ("hot_memory_minutes", "hot memory", 0),
    ("over_capacity_minutes", "over 100 %", 0),
    ("p99_cpu", "p99", 2),
    ("p999_cpu", "p99.9", 2),
    ("imbalance_cpu", "imbalance", 3),
    ("waiting_pod_minutes", "pods' waiting", 0),
    ("waiting_pods", "never placed", 0),
    ("refused_pods", "refused", 0),
    ("evictions", "evictions", 0),
    ("bounces", "bounces", 0),
)

LEGEND = (
    "hot CPU, hot memory, over 100 %: node-minutes of demand above 75 % of CPU, 80 % of memory, all of "
    "CPU. p99, p99.9: demand for CPU of nodes. Imbalance: its standard deviation over nodes. Pods' "
    "waiting in minutes. Bounces: pods that came back or were evicted again within an hour."
)


def lines(comparison: Comparison) -> Iterator[str]:
    """The table, and what it is of."""
    yield from _about(comparison)
    yield ""
    rows = figures(comparison)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = row
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def figures(comparison: Comparison) -> list[list[str]]:
    """Headings, then a row for each contender: means over seeds, with spread if there are several."""
    rows = [["", *(heading for _, heading, _ in COLUMNS)]]
    for name, results in comparison.contenders():
        mean, spread = means(results), spreads(results)
        cells = [
            f"{mean[figure]:,.{digits}f}"
            + (f" ±{spread[figure]:,.{digits}f}" if len(results) > 1 else "")
            for figure, _, digits in COLUMNS
        ]
        rows.append([name, *cells])
    return rows


def calibration(comparison: Comparison) -> list[list[str]]:
    """Headings, then a row for each seed."""
    return [
        ["seed", "pods", "requested", "factor"],
        *(
            [str(each.seed), str(each.pods), f"{each.requested_share:.1%}", f"{each.factor:.3f}"]
            for each in comparison.calibrations
        ),
    ]


def settings(*comparisons: Comparison) -> list[list[str]]:
    """Headings, then a row for each parameter; with commas where comparisons differ in it."""
    source = ", ".join(comparisons[0].files) or "the built-in model"
    given = [each.parameters for each in comparisons]
    values = [{**asdict(each), "fill_share": round(each.fill, 4)} for each in given]
    rows = ([name, _joined(each[name] for each in values)] for name in values[0])
    return [["parameter", "value"], *rows, ["traces", source]]


def _joined(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))


def _about(comparison: Comparison) -> Iterator[str]:
    given = comparison.parameters
    source = ", ".join(comparison.files) or "the built-in model"
    seeds = count_text(len(comparison.calibrations), "seed")
    yield (
        f"{given.nodes} nodes for {given.hours:g} h after {given.filling_hours:g} h of filling, "
        f"mean load {given.load_text}%, {seeds}; from {source}"
    )
    for each in comparison.calibrations:
        yield (
            f"seed {each.seed}: {each.pods} pods request {each.requested_share:.1%} of the nodes; "
            f"usage is request x trace x {each.factor:.2f}"
        )
