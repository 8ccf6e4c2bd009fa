"""`python -m benchmarks [NAME]`: one JSON object a figure, on a line of its own."""

import sys

from benchmarks import placement, rebalance, worst
from benchmarks.figures import select


def main() -> int:
    """Run all benchmarks, or the one named; `--list` names them."""
    only = sys.argv[1] if len(sys.argv) > 1 else None
    benchmarks = {**placement.benchmarks(), **rebalance.benchmarks(), **worst.benchmarks()}
    if only == "--list":
        print("\n".join(benchmarks))
        return 0
    try:
        chosen = list(select(benchmarks, only))
    except KeyError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    for benchmark in chosen:
        print(benchmark().line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
