"""Dashboard and alerts use only metrics that exist."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from connectors.kubernetes.duties.telemetry import DutyTelemetry as DutyTelemetry
from connectors.kubernetes.sources.health import SourceFailed, SourceHealth
from connectors.kubernetes.watch.state_watch import CollectionHealth
from streams.stage.records import OutputRecord, RowChange, StageResult
from streams.stage.statistics import ClusterFigures, Counts, Figures
from streams.worker.report.metrics import Metrics
from streams.worker.report.observer import Gauges, Snapshot
from tests.connectors.kubernetes.sources.debian import prometheus

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

_METRIC = re.compile(r"\b((?:loadstream|process)_[a-z_]+)\b(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
#: Labels that Prometheus adds.
_OF_PROMETHEUS = {"instance", "job"}


def _exposed() -> dict[str, set[str]]:
    """Return labels by series of a worker that has done everything once."""
    metrics, gauges = Metrics(), Gauges()
    metrics.registry.register(gauges)
    metrics.start_stage("cluster", ["scheduling-requests"], 4)
    metrics.count_result(
        "cluster", StageResult((OutputRecord("t", "k", b""),), (RowChange("0/c/nodes/n", None),))
    )
    counts = Counts()
    counts.results["applied"] += 1
    counts.decided["placed", "none"] += 1
    counts.rounds["calm"] += 1
    counts.commands["c", "rebalance", "observe"] += 1
    counts.migrations["c", "Succeeded", "Complete"] += 1
    counts.moves["c", "all"] += 1
    metrics.add_counts("cluster", counts)
    metrics.observe_recovery("cluster", 1, 1, 1.0)
    figures = ClusterFigures("c", 1, 1, 1, 1, 1, 1, 1, hot_usage={("n", "cpu"): 0.8})
    gauges.snapshot = Snapshot(
        lags={("cluster", "clock", 0): 1},
        figures={("cluster", 0): Figures(1, 1, (figures,))},
        written_bytes={("cluster", "journal"): 1},
    )
    return _series(metrics.registry)


def _exposed_by_duties() -> dict[str, set[str]]:
    """Return labels by series of a process with all duties of a cluster."""
    telemetry, source = DutyTelemetry("c"), SourceHealth("s", lambda: 1)
    source.record_success("n")
    source.record_clock_skew("n", 1)
    source.record_failure(SourceFailed("timeout", "no answer"))
    source.counts["samples"] += 1
    for duty in ("watch", "collect", "bind", "evict"):
        telemetry.add_duty(duty)
        telemetry.set_active(duty, active=True)
    telemetry.set_watch(lambda: [CollectionHealth("/p", 1, 1, None, "", 0)])
    telemetry.set_sources(lambda: [source.report()])
    telemetry.take_snapshot(1)
    return _series(telemetry.registry)


def _series(registry: CollectorRegistry) -> dict[str, set[str]]:
    labels_of: dict[str, set[str]] = {}
    for family in registry.collect():
        for sample in family.samples:
            labels_of.setdefault(sample.name, set()).update(sample.labels)
    return {name: labels for name, labels in labels_of.items() if not name.endswith("_created")}


EXPOSED = _exposed()
EXPOSED_BY_DUTIES = _exposed_by_duties()
DASHBOARD = json.loads((DEPLOY / "grafana/dashboards/loadstream.json").read_text())
_GROUPS = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]
RECORDED, *_ALERTS = (group["rules"] for group in _GROUPS)
RULES = [rule for rules in _ALERTS for rule in rules]


def _panels() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield panels with each of their queries."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel, target


def _expand(expression: str) -> str:
    for rule in RECORDED:
        expression = expression.replace(rule["record"], f"({rule['expr']})")
    return expression


QUERIES = [rule["expr"] for rule in RULES] + [target["expr"] for _, target in _panels()]
EXPRESSIONS = list(map(_expand, QUERIES))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_query_uses_existing_metrics_and_labels(expression: str) -> None:
    used = list(_METRIC.finditer(expression))
    assert used or "up{" in expression
    allowed = set(_OF_PROMETHEUS)
    exposed = EXPOSED_BY_DUTIES | EXPOSED
    for match in used:
        assert match[1] in exposed, f"{match[1]} is no metric of ours"
        labels = exposed[match[1]] | _OF_PROMETHEUS
        matchers = re.findall(r"(\w+)\s*[=!]~?=?", match[2] or "")
        assert set(matchers) <= labels
        allowed |= labels
    for grouped in _GROUPED.findall(expression):
        assert {label.strip() for label in grouped.split(",")} <= allowed
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_counters_are_only_used_as_rates(expression: str) -> None:
    for match in re.finditer(r"\b(loadstream_[a-z_]+_(?:total|bucket|sum|count))\b", expression):
        before = expression[: match.start()]
        assert re.search(r"(rate|increase)\($", before), match[1]


def test_recorded_series_are_used_by_an_alert_and_the_dashboard() -> None:
    panels = [target["expr"] for _, target in _panels()]
    for rule in RECORDED:
        for expressions in ([alert["expr"] for alert in RULES], panels):
            assert any(rule["record"] in expression for expression in expressions), rule["record"]


def test_a_real_prometheus_accepts_the_alerts_and_fires_them() -> None:
    """A standby does not end an alert that nobody is active, and causes no alert if another is."""
    for arguments in (
        ["check", "rules", str(DEPLOY / "prometheus" / "alerts.yml")],
        ["test", "rules", str(Path(__file__).parent / "alerts_test.yml")],
    ):
        done = subprocess.run(  # noqa: S603 - our own words and paths
            [prometheus().with_name("promtool"), *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_severity_a_summary_and_a_section_of_the_runbook() -> None:
    runbook = (ROOT / "docs/how-to/alerts.md").read_text()
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"].endswith(".")
        link = f"docs/how-to/alerts.md#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook_url"] == link
        labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        grouped = _GROUPED.findall(rule["expr"])
        if labels and grouped:
            assert labels <= {label.strip() for text in grouped for label in text.split(",")}
    titles = re.findall(r"^### (Loadstream\w+)$", runbook, re.MULTILINE)
    assert sorted(titles) == sorted(rule["alert"] for rule in RULES)
