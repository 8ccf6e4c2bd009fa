"""The time of this machine, read in one place so that tests can set it."""

import time


def now_ms() -> int:
    """Return milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000
