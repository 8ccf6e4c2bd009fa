"""What a history shows to be wrong."""

import traceback
from pathlib import Path

_ROOT = Path(__file__).parents[2]


class Failure(AssertionError):
    """A check that failed; histories are shortened as long as they fail in the same kind."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind
        self.detail = detail


def raised(error: Exception, by: str) -> Failure:
    """An exception that left a stage; its kind names the place in our code."""
    place = "?"
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if path.is_relative_to(_ROOT / "streams") or path.is_relative_to(_ROOT / "schemas"):
            place = f"{path.relative_to(_ROOT)} {frame.name}"
    kind = f"{by} raised {type(error).__name__} in {place}"
    return Failure(kind, str(error)[:500])


def require(holds: bool, kind: str, detail: str = "") -> None:
    """Raises a `Failure` unless it holds."""
    if not holds:
        raise Failure(kind, detail)
