"""How a broken invariant is reported."""

import traceback
from pathlib import Path

_ROOT = Path(__file__).parents[2]


class Failure(AssertionError):
    """An invariant that does not hold. A shorter history must fail with the same `kind`."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind


def require(holds: bool, kind: str, detail: object = "") -> None:
    """Raise a Failure unless the condition holds."""
    if not holds:
        raise Failure(kind, str(detail)[:1_500])


def describe_exception(error: Exception, source: str) -> Failure:
    """Turn an exception into a Failure whose kind names the function of the project that raised it."""
    location = "?"
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if path.is_relative_to(_ROOT):
            location = f"{path.relative_to(_ROOT)} {frame.name}"
    return Failure(f"{source} raised {type(error).__name__} in {location}", str(error)[:500])
