"""Metrics of the agent itself, for Prometheus."""

from prometheus_client import Counter, Gauge

from connectors.process.metrics_endpoint import create_process_registry

#: Purposes of reading files (`files.Files`).
PURPOSES = ("node", "pods", "names")


class AgentTelemetry:
    def __init__(self) -> None:
        self.registry = create_process_registry()
        self.success = self._gauge(
            "last_success_timestamp_seconds",
            "Time of the newest sample acknowledged by the broker; 0: none.",
        )
        self.samples = self._counter("samples", "Samples measured.")
        self.dropped = self._counter(
            "dropped_samples", "Samples dropped because the broker was away for too long."
        )
        self.failed = self._counter("failed_samples", "Failed attempts to measure the node.")
        self.read_errors = self._counter(
            "read_errors",
            "Existing files that could not be read or parsed, by purpose: `node`, `pods`, `names`.",
            "purpose",
        )
        for purpose in PURPOSES:
            self.read_errors.labels(purpose)
        self.backlog = self._gauge("backlog_samples", "Samples waiting for the broker.")
        self.pods = self._gauge("pods", "Pods in the newest sample.")
        self.unnamed = self._gauge(
            "unnamed_pods", "Pods with a cgroup that the newest sample lacks."
        )

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"loadstream_agent_{name}", text, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"loadstream_agent_{name}", text, labels, registry=self.registry)
