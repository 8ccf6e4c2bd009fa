"""`python -m tests.cases [WORD]`: runs situations, or only those with WORD in number or input."""

import sys

from tests.cases.load import CASES, NOT_RUN


def main(word: str = "") -> int:
    """Print one line per situation; return 1 if an outcome is wrong."""
    wrong = 0
    chosen = [case for case in CASES if word in f"{case.number} {case.input}"]
    for case in chosen:
        outcome = case.run()
        line = f"{case.number}: {case.input} => {outcome}"
        if outcome != case.right:
            wrong += 1
            line += f" | right: {case.right} | wrong" + (f" ({case.defect})" if case.defect else "")
        print(line, flush=True)
    for number, reason in NOT_RUN.items() if not word else ():
        print(f"{number}: not run: {reason}")
    print(f"{len(chosen) - wrong} of {len(chosen)} outcomes are right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
