"""PromQL queries for common exporters, and the numbers of their answers.

Each query returns one number per node or pod: CPU in cores, other resources in base units. Two jobs
may scrape one target, and a kubelet's `/metrics/resource` has metrics with the same names as its
`/metrics/cadvisor`. So queries add up within one job and take the largest job, and select the series of
cAdvisor by their label `id`. `{window}`, `{node}`, `{namespace}` and `{pod}` are replaced by the window of
rates and by the labels with the node, the namespace and the name of a pod.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from schemas.base.message import AMOUNT_MAX
from schemas.messages.usage import MemoryDefinition

K = TypeVar("K")

#: Most nodes or pods that a sentence names.
_NAMES_MAX = 3


@dataclass(frozen=True, slots=True)
class Preset:
    """Queries by resource."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    pods: Mapping[str, str] = field(default_factory=dict)
    node_times: str | None = None
    """Time of a node's newest figures, in seconds since 1970; rates continue for a window after it."""
    memory_is: MemoryDefinition | None = None
    """Definition of the memory figures."""


#: https://github.com/prometheus/node_exporter: counters by mode, gauges of /proc/meminfo.
_NODE_EXPORTER = Preset(
    memory_is="notAvailable",
    nodes={
        "cpu": (
            "max by ({node}) (sum by ({node}, job) "
            '(rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[{window}])))'
        ),
        "memory": "max by ({node}) (node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes)",
    },
    node_times="max by ({node}) (timestamp(node_memory_MemAvailable_bytes))",
)

#: https://github.com/google/cadvisor: the root cgroup is the node, and each container has a series.
_CADVISOR = Preset(
    memory_is="workingSet",
    nodes={
        "cpu": 'max by ({node}) (rate(container_cpu_usage_seconds_total{id="/"}[{window}]))',
        "memory": 'max by ({node}) (container_memory_working_set_bytes{id="/"})',
    },
    pods={
        "cpu": (
            "max by ({node}, {namespace}, {pod}) (sum by ({node}, {namespace}, {pod}, job) "
            '(rate(container_cpu_usage_seconds_total{id=~"/.+",container!~"|POD",{pod}!=""}[{window}])))'
        ),
        "memory": (
            "max by ({node}, {namespace}, {pod}) (sum by ({node}, {namespace}, {pod}, job) "
            '(container_memory_working_set_bytes{id=~"/.+",container!~"|POD",{pod}!=""}))'
        ),
    },
    node_times='max by ({node}) (timestamp(container_memory_working_set_bytes{id="/"}))',
)

PRESETS: Mapping[str, Preset] = {"nodeExporter": _NODE_EXPORTER, "cadvisor": _CADVISOR}


class SeriesByKey(Generic[K]):
    """Amounts of one query by node or pod.

    If a node or pod has several series, the largest counts. A node or pod with series of several clusters
    is left out.
    """

    def __init__(self, about: str, resource: str) -> None:
        self.amounts: dict[K, int] = {}
        self.wrong: dict[str, None] = {}
        """Names with their invalid numbers."""
        self._about, self._resource = about, resource
        self._labels: dict[K, Mapping[str, str]] = {}
        self._several: dict[str, None] = {}
        self._foreign: dict[str, None] = {}

    def take(self, key: K, name: str, labels: Mapping[str, str], value: float) -> None:
        """Add the number of a series; `name` is the node's or pod's name in notes."""
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
        """Yield each kind of doubt with a sentence; None: there is no doubt."""
        for kind, names, text in (
            ("wrong", self.wrong, "invalid amounts (query rate(), not irate())"),
            ("several", self._several, "several series, of which the largest counts"),
            ("foreign", self._foreign, "series of several clusters, left out (select one cluster)"),
        ):
            shown = ", ".join(list(names)[:_NAMES_MAX]) + (
                " ..." if len(names) > _NAMES_MAX else ""
            )
            yield f"{kind} {self._about}", f"{self._about}: {text}: {shown}" if names else None


def _cluster(labels: Mapping[str, str]) -> str | None:
    return next((value for name, value in labels.items() if name.startswith("cluster")), None)


def _amount(resource: str, value: float) -> int | None:
    scaled = value * 1_000 if resource == "cpu" else value
    if not math.isfinite(scaled) or not 0 <= scaled <= AMOUNT_MAX:
        return None
    return int(scaled + 0.5)
