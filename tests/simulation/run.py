"""`python -m tests.simulation.run SEED...`: run simulations and print what they came to."""

import sys

from tests.simulation.simulation import Simulation, Violation


def main(seeds: list[int]) -> int:
    """1 if something that must hold does not."""
    failed = 0
    for seed in seeds:
        simulation = Simulation(seed)
        try:
            simulation.run()
        except Violation as violation:
            failed += 1
            print(f"seed {seed}, {violation}")
        else:
            print(simulation.summary())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main([int(text) for text in sys.argv[1:]] or list(range(10))))
