"""Where a run stands: what the views show beside the cluster itself."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Status:
    """A moment of a run."""

    phase: Literal["starting", "running"]
    """starting: the worker has not answered yet."""
    real_s: float
    """Real time since the worker's first answer."""
    note: str = ""
    """Where records can be looked at meanwhile."""
