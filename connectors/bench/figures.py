"""What a benchmark answers with."""

import json
from dataclasses import dataclass, field


class Unproven(AssertionError):
    """What was measured is not what was meant to be measured; there is no figure then."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure."""

    name: str
    value: float
    unit: str
    detail: dict[str, object] = field(default_factory=dict)

    def line(self) -> str:
        """The figure as a line of JSON."""
        content = {
            "name": self.name,
            "value": round(self.value, 3),
            "unit": self.unit,
            "detail": self.detail,
        }
        return json.dumps(content)
