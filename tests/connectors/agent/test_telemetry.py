from prometheus_client import generate_latest

from connectors.agent.telemetry import AgentTelemetry


def _export(telemetry: AgentTelemetry) -> str:
    return generate_latest(telemetry.registry).decode()


def test_external_counters_are_exported_as_they_are() -> None:
    telemetry = AgentTelemetry()
    telemetry.count_sample(pods=30, unnamed=2)
    telemetry.mark_delivered(1_795_000_000_500)
    telemetry.count_failure()
    telemetry.update_totals({"pods": 3}, dropped=5, backlog=7)
    telemetry.update_totals({"pods": 4, "node": 1}, dropped=5, backlog=6)
    shown = _export(telemetry)
    for line in (
        "samples_total 1.0",
        "pods 30.0",
        "unnamed_pods 2.0",
        "last_success_timestamp_seconds 1.7950000005e+09",
        "failed_samples_total 1.0",
        'read_errors_total{purpose="pods"} 4.0',
        'read_errors_total{purpose="node"} 1.0',
        "dropped_samples_total 5.0",
        "backlog_samples 6.0",
    ):
        assert f"loadstream_agent_{line}\n" in shown
