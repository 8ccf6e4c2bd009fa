"""Amounts, counts, times and durations as text."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")


def duration_ms(text: str) -> int | None:
    """Return the milliseconds of `90s`, `15m`, `2h` or `1d`; None for any other text."""
    match = _DURATION.fullmatch(text)
    return int(match[1]) * _UNIT_MS[match[2]] if match else None


def duration_text(length_ms: int) -> str:
    """Return a duration in the largest unit that gives a whole number: 300000 is `5m`."""
    for unit in ("d", "h", "m", "s"):
        if length_ms and length_ms % _UNIT_MS[unit] == 0:
            return f"{length_ms // _UNIT_MS[unit]}{unit}"
    return f"{length_ms}ms"


def ago_text(length_ms: int) -> str:
    """Return a duration in at most two units: 3723000 is `1h 2m`."""
    seconds = max(0, length_ms) // 1000
    if seconds < 60:
        return duration_text(seconds * 1000) if seconds else "0s"
    units = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    parts = []
    for unit, size in units:
        if seconds >= size:
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
        elif parts:
            break
    return " ".join(parts[:2])


def time_text(epoch_ms: int) -> str:
    """Return a time in UTC with milliseconds, or the number itself if it is outside the calendar."""
    try:
        moment = datetime.fromtimestamp(epoch_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{epoch_ms % 1000:03d}"


def bytes_text(amount: int) -> str:
    """Return bytes with a binary unit: 1610612736 is `1.5Gi`."""
    value, units = float(amount), ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    # From 999.5 on three digits round to 1e+03.
    return f"{value:.3g}{units[0]}" if value < 999.5 else f"{value:.0f}{units[0]}"


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return amounts as text: cpu in cores, memory and storage with binary units, others unchanged."""
    texts = []
    for name, amount in amounts.items():
        if name == "cpu":
            texts.append(f"cpu {amount / 1000:g}")
        elif name == "memory" or name.endswith("storage"):
            texts.append(f"{name} {bytes_text(amount)}")
        else:
            texts.append(f"{name} {amount}")
    return ", ".join(texts) or "nothing"


def count_text(number: int, noun: str) -> str:
    """Return `1 node` or `2 nodes`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def names_text(names: Sequence[str], most: int) -> str:
    """Return the first names, and the number of the others: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
