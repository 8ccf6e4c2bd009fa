"""Where a run stands: what the views show beside the cluster itself."""

from dataclasses import dataclass
from typing import Literal

Phase = Literal["starting", "running", "held", "closing"]
"""starting: the worker has not answered yet. held: the clock waits for it. closing: it is over."""


@dataclass(frozen=True, slots=True)
class Status:
    """A moment of a run."""

    phase: Phase
    real_s: float
    """Real time since the worker's first answer."""
    seconds: float
    """How long the run is to last."""
    speed: float
    """Simulated seconds in a real one."""
    samples_per_s: float
    note: str = ""
    """Where records can be looked at meanwhile."""
