"""Lengths of waits that double, and remaining times in reports."""


def compute_wait_ms(first_s: int, max_s: int, number: int) -> int:
    """Return the length of a wait by its number, from 1. Waits double up to `max_s`."""
    return int(min(first_s * 2 ** min(max(number, 1) - 1, 40), max_s)) * 1000


def ceil_seconds(duration_ms: int) -> int:
    """Return a remaining time in seconds, rounded up so that reports do not say 0."""
    return -(-duration_ms // 1000)
