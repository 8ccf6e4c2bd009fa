"""The numbers of one query by node or pod, and what is wrong with some of them."""

import math
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from schemas.base.message import AMOUNT_MAX

K = TypeVar("K")

#: Nodes or pods that a sentence names.
_SHOWN_MAX = 3


class SeriesByKey(Generic[K]):
    """Amounts by node or pod. Of several series of one the largest counts; if they are of several
    clusters, as one server may have them, none does."""

    def __init__(self, about: str, resource: str) -> None:
        self.amounts: dict[K, int] = {}
        self.wrong: dict[str, None] = {}
        """Names whose numbers cannot be amounts, each with its number."""
        self._about, self._resource = about, resource
        self._labels: dict[K, Mapping[str, str]] = {}
        self._several: dict[str, None] = {}
        self._foreign: dict[str, None] = {}

    def take(self, key: K, name: str, labels: Mapping[str, str], value: float) -> None:
        """Take the number of a series; `name`: of the node or pod, for people."""
        amount = _amount(self._resource, value)
        if amount is None:
            self.wrong[f"{name} {value:g}"] = None
            return
        before = self._labels.setdefault(key, labels)
        if before is not labels:
            if _cluster(before) != _cluster(labels):
                self._foreign[name] = None
            else:
                self._several[name] = None
        if name in self._foreign:
            self.amounts.pop(key, None)
        else:
            self.amounts[key] = max(amount, self.amounts.get(key, 0))

    def describe_doubts(self) -> Iterator[tuple[str, str | None]]:
        """Yield each kind of doubt, and a sentence about it; none: there is no doubt."""
        for kind, names, text in (
            ("wrong", self.wrong, "numbers that are no amounts (ask for rate(), not irate())"),
            ("several", self._several, "several series of one, of which the largest counts"),
            ("foreign", self._foreign, "series of several clusters, left out (name one cluster)"),
        ):
            shown = ", ".join(list(names)[:_SHOWN_MAX]) + (
                " ..." if len(names) > _SHOWN_MAX else ""
            )
            yield f"{kind} {self._about}", f"{self._about}: {text}: {shown}" if names else None


def _cluster(labels: Mapping[str, str]) -> str | None:
    return next((value for name, value in labels.items() if name.startswith("cluster")), None)


def _amount(resource: str, value: float) -> int | None:
    """A number as an amount; none: it cannot be one."""
    scaled = value * 1_000 if resource == "cpu" else value
    if not math.isfinite(scaled) or not 0 <= scaled <= AMOUNT_MAX:
        return None
    return int(scaled + 0.5)
