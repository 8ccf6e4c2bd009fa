"""Seeds as the command lines of campaigns take them."""

import argparse


def seeds(text: str) -> range:
    """One seed, or from-to; at least one.

    Raises argparse.ArgumentTypeError where it is neither.
    """
    first, _, last = text.partition("-")
    try:
        found = range(int(first), int(last or first) + 1)
    except ValueError:
        found = range(0)
    if not found:
        raise argparse.ArgumentTypeError(f"found {text!r}; expected a seed, or two as in 1-50")
    return found
