"""Metrics of the agent itself, for Prometheus."""

from collections.abc import Mapping

from prometheus_client import Counter, Gauge

from connectors.process.metrics_endpoint import create_process_registry

#: Purposes of reading files (`files.Files`).
PURPOSES = ("node", "pods", "names")


class AgentTelemetry:
    def __init__(self) -> None:
        self.registry = create_process_registry()
        self._success = self._gauge(
            "last_success_timestamp_seconds",
            "Time of the newest sample acknowledged by the broker; 0: none.",
        )
        self._samples = Counter(
            "loadstream_agent_samples", "Samples measured.", registry=self.registry
        )
        self._dropped = Counter(
            "loadstream_agent_dropped_samples",
            "Samples dropped because the broker was away for too long.",
            registry=self.registry,
        )
        self._failed = Counter(
            "loadstream_agent_failed_samples",
            "Failed attempts to measure the node.",
            registry=self.registry,
        )
        self._errors = Counter(
            "loadstream_agent_read_errors",
            "Existing files that could not be read or parsed, by purpose: `node`, `pods`, `names`.",
            ["purpose"],
            registry=self.registry,
        )
        for purpose in PURPOSES:
            self._errors.labels(purpose)
        self._backlog = self._gauge("backlog_samples", "Samples waiting for the broker.")
        self._pods = self._gauge("pods", "Pods in the newest sample.")
        self._unnamed = self._gauge(
            "unnamed_pods", "Pods with a cgroup that the newest sample lacks."
        )
        self._counted: dict[str, int] = {}
        self.dropped = 0
        """Number of dropped samples counted so far."""

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"loadstream_agent_{name}", text, registry=self.registry)

    def count_sample(self, pods: int, unnamed: int) -> None:
        self._samples.inc()
        self._pods.set(pods)
        self._unnamed.set(unnamed)

    def count_failure(self) -> None:
        self._failed.inc()

    def mark_delivered(self, sampled_at_ms: int) -> None:
        self._success.set(sampled_at_ms / 1000)

    def update_totals(self, read_errors: Mapping[str, int], dropped: int, backlog: int) -> None:
        """Update metrics from counters kept elsewhere."""
        for purpose, total in read_errors.items():
            self._errors.labels(purpose).inc(total - self._counted.get(purpose, 0))
            self._counted[purpose] = total
        self._dropped.inc(dropped - self.dropped)
        self.dropped = dropped
        self._backlog.set(backlog)
