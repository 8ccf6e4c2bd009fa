"""Times of Kubernetes objects (metav1.Time, RFC 3339)."""

from datetime import UTC, datetime


def parse_time_ms(text: object) -> int | None:
    """Return a time in milliseconds since 1970; None: not a time with a zone."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int(moment.timestamp() * 1_000) if moment.tzinfo is not None else None


def format_time(ms: int) -> str:
    """Return a time in whole seconds, as metav1.Time has it."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
