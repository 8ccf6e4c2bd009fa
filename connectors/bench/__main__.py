"""`python -m connectors.bench [NAME]`: one JSON object a figure, on a line of its own."""

import sys
from collections.abc import Callable

from connectors.bench import latency, recovery, throughput
from connectors.bench.figures import Figure


def benchmarks() -> dict[str, Callable[[], Figure]]:
    """All figures, by name."""
    return {**throughput.BENCHMARKS, **latency.BENCHMARKS, **recovery.BENCHMARKS}


def main(arguments: list[str]) -> int:
    """Run all benchmarks, or the one named; `--list` names them."""
    known = benchmarks()
    if arguments == ["--list"]:
        print("\n".join(known))
        return 0
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in arguments or known:
        print(known[name]().line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
