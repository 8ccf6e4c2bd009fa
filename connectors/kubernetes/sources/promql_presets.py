"""Queries for what most Prometheus servers have: node_exporter, and cAdvisor within the kubelet.

Each query answers with one number per node or pod. CPU is in cores, memory in bytes. The same
target may be scraped by two jobs, and a kubelet's `/metrics/resource` has metrics of the same names
as its `/metrics/cadvisor`: so figures are summed within one job and the largest job counts, and
cAdvisor's series are known by their `id`. Names in braces are filled in: the window of rates, and
the labels that hold the node, the namespace and the name of a pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.messages.usage import MemoryDefinition


@dataclass(frozen=True, slots=True)
class Preset:
    """Queries by resource."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    pods: Mapping[str, str] = field(default_factory=dict)
    node_times: str | None = None
    """When a node was measured, in seconds since 1970: a rate goes on for its window after that."""
    memory_is: MemoryDefinition | None = None
    """What its figures of memory count."""


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

#: https://github.com/google/cadvisor: the root cgroup is the node; each container has a series.
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
