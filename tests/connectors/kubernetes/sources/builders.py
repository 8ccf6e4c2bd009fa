"""What kubelets answer, written as they write it.

`/metrics/resource`: names, help texts, labels and times as in the kubelet's own collector
(pkg/kubelet/metrics/collectors/resource_metrics.go of Kubernetes 1.36.3), families in the order of
their names, labels too, as Prometheus' text encoder puts them. `documents/` holds what upstream's
own Go types marshal (tests/upstream_types).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

DOCUMENTS = Path(__file__).parent / "documents"

_HELP = {
    "container_cpu_usage_seconds_total": ("counter", "[STABLE] Cumulative cpu time consumed by the container in core-seconds"),
    "container_memory_working_set_bytes": ("gauge", "[STABLE] Current working set of the container in bytes"),
    "container_start_time_seconds": ("gauge", "[STABLE] Start time of the container since unix epoch in seconds"),
    "node_cpu_usage_seconds_total": ("counter", "[STABLE] Cumulative cpu time consumed by the node in core-seconds"),
    "node_memory_working_set_bytes": ("gauge", "[STABLE] Current working set of the node in bytes"),
    "pod_cpu_usage_seconds_total": ("counter", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds"),
    "pod_memory_working_set_bytes": ("gauge", "[STABLE] Current working set of the pod in bytes"),
    "resource_scrape_error": ("gauge", "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise"),
}  # fmt: skip

#: Name, labels, value, time in ms.
Line = tuple[str, Mapping[str, str], float, int | None]


def document(name: str) -> Any:
    """Return a document marshalled by upstream's types."""
    return orjson.loads((DOCUMENTS / f"{name}.json").read_bytes())


def exposition(lines: Iterable[Line]) -> bytes:
    """Return the text of an answer."""
    families: dict[str, list[str]] = {}
    for name, labels, value, at_ms in lines:
        pairs = ",".join(f'{name}="{labels[name]}"' for name in sorted(labels))
        series = f"{name}{{{pairs}}}" if pairs else name
        stamp = "" if at_ms is None else f" {at_ms}"
        families.setdefault(name, []).append(f"{series} {_number(value)}{stamp}\n")
    text = ""
    for name in sorted(families):
        kind, help_text = _HELP[name]
        text += f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n" + "".join(families[name])
    return text.encode()


def _number(value: float) -> str:
    """Format as Go does: shortest, with an exponent from a million on."""
    if value and not 1e-4 <= abs(value) < 1e6:
        return np.format_float_scientific(float(value), trim="-", exp_digits=2)
    return np.format_float_positional(float(value), trim="-")


def node_lines(cpu_s: float, memory: int, at_ms: int | None) -> list[Line]:
    """Return the lines of the node."""
    return [
        ("node_cpu_usage_seconds_total", {}, cpu_s, at_ms),
        ("node_memory_working_set_bytes", {}, memory, at_ms),
        ("resource_scrape_error", {}, 0, None),
    ]


def pod_lines(
    name: str, cpu_s: float, memory: int, at_ms: int | None, namespace: str = "shop"
) -> list[Line]:
    """Return the lines of a pod."""
    labels = {"namespace": namespace, "pod": name}
    return [
        ("pod_cpu_usage_seconds_total", labels, cpu_s, at_ms),
        ("pod_memory_working_set_bytes", labels, memory, at_ms),
    ]


def container_lines(
    pod: str, container: str, cpu_s: float, memory: int, at_ms: int | None
) -> list[Line]:
    """Return the lines of a container."""
    labels = {"namespace": "shop", "pod": pod, "container": container}
    return [
        ("container_cpu_usage_seconds_total", labels, cpu_s, at_ms),
        ("container_memory_working_set_bytes", labels, memory, at_ms),
        ("container_start_time_seconds", labels, 1.7e9, None),
    ]


def busy_node(pods: int, containers: int, cpu_s: float, at_ms: int) -> bytes:
    """Return all lines of a kubelet with many pods."""
    lines = node_lines(cpu_s, 2**34, at_ms)
    for number in range(pods):
        pod = f"shop-frontend-7d9c6b5f4-{number:05d}"
        lines += pod_lines(pod, cpu_s / pods, 2**28 + number, at_ms)
        for container in range(containers):
            share = cpu_s / pods / containers
            lines += container_lines(pod, f"app-{container}", share, 2**27, at_ms)
    return exposition(lines)
