"""`python -m benchmarks [NAME ...]`: prints each figure as a line of JSON."""

import sys

from benchmarks import (
    binding,
    placement,
    pod_latency,
    rebalance,
    through_broker,
    watch_and_collect,
    worst_records,
)
from benchmarks.figures import Benchmark, CheckFailed
from connectors.brokers.distribution import KafkaUnavailable
from simulation.control_plane.build import ControlPlaneUnavailable

#: All benchmarks by name. Those without a broker take seconds, the others minutes.
BENCHMARKS: dict[str, Benchmark] = {
    **placement.BENCHMARKS,
    **rebalance.BENCHMARKS,
    **worst_records.BENCHMARKS,
    **through_broker.BENCHMARKS,
    **watch_and_collect.BENCHMARKS,
    **binding.BENCHMARKS,
    **pod_latency.BENCHMARKS,
}


def main(arguments: list[str]) -> int:
    """Run all benchmarks or the named ones; `--list` prints the names."""
    if arguments == ["--list"]:
        print("\n".join(BENCHMARKS))
        return 0
    unknown = [name for name in arguments if name not in BENCHMARKS]
    if unknown:
        print(
            f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}",
            file=sys.stderr,
        )
        return 2
    missing = 0
    for name in arguments or BENCHMARKS:
        try:
            print(BENCHMARKS[name]().to_json(name), flush=True)
        except (ControlPlaneUnavailable, KafkaUnavailable, CheckFailed) as error:
            missing += 1
            print(f"no figure {name}: {error}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
