"""`python -m tests.golden DIR`: run the golden cases found below a directory."""

import sys
from pathlib import Path

from tests.golden.cases import run_directory


def main() -> int:
    """Print how many scenarios agree; return 1 if a scenario differs that must agree."""
    if len(sys.argv) != 2:
        print("usage: python -m tests.golden DIR", file=sys.stderr)
        return 2
    try:
        reports, passed = run_directory(Path(sys.argv[1]))
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    for report in reports:
        for line in report.lines():
            print(line)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
