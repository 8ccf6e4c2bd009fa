"""Dashboard and alerts speak of metrics that there are, and the documents of all of them."""

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
from connectors.kubernetes.watch.collection import CollectionHealth
from connectors.process.logs import LogSettings
from streams.stage.records import OutputRecord, RowChange, StageResult
from streams.stage.statistics import ClusterFigures, Counts, Figures
from streams.worker.report.metrics import Metrics
from streams.worker.report.observer import LOOK_S, Gauges, Look
from streams.worker.settings import WorkerSettings
from tests.connectors.kubernetes.sources.debian import prometheus

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

_METRIC = re.compile(r"\b((?:loadstream|process)_[a-z_]+)\b(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
#: Labels that Prometheus itself adds.
_OF_PROMETHEUS = {"instance", "job"}


def _exposed() -> dict[str, set[str]]:
    """Names of series of a worker that has done everything once, with their labels."""
    metrics, gauges = Metrics(), Gauges()
    metrics.registry.register(gauges)
    metrics.start_stage("cluster", ["scheduling-requests"], 4)
    metrics.count_result(
        "cluster",
        StageResult((OutputRecord("t", "k", b""),), (RowChange("0/c/nodes/n", None),)),
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
    gauges.show(
        Look(
            lags={("cluster", "clock", 0): 1},
            figures={("cluster", 0): Figures(1, 1, (ClusterFigures("c", 1, 1, 1, 1, 1, 1, 1),))},
            written_bytes={("cluster", "journal"): 1},
        )
    )
    return _series(metrics.registry)


def _exposed_by_duties() -> dict[str, set[str]]:
    """The same of a process of all duties of a cluster."""
    telemetry, source = DutyTelemetry("c"), SourceHealth("s", lambda: 1)
    source.record_success("n")
    source.record_clock_skew("n", 1, from_receipt=False)
    source.record_failure(SourceFailed("timeout", "no answer"))
    source.counts["samples"] += 1
    for duty in ("watch", "collect", "bind", "evict"):
        telemetry.add_duty(duty)
        telemetry.set_active(duty, active=True)
    telemetry.watch(lambda: [CollectionHealth("/p", 1, 1, None, "", None, 0, {})])
    telemetry.collect(lambda: [source.report()])
    telemetry.take_snapshot(1)
    return _series(telemetry.registry)


def _series(registry: CollectorRegistry) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for family in registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return {name: labels for name, labels in found.items() if not name.endswith("_created")}


EXPOSED = _exposed()
EXPOSED_BY_DUTIES = _exposed_by_duties()
DASHBOARD = json.loads((DEPLOY / "grafana/dashboards/loadstream.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]


def _panels() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Panels with each of their queries."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel, target


EXPRESSIONS = [rule["expr"] for rule in RULES] + [target["expr"] for _, target in _panels()]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_query_uses_metrics_and_labels_that_there_are(expression: str) -> None:
    used = list(_METRIC.finditer(expression))
    assert used or "up{" in expression
    known = set(_OF_PROMETHEUS)
    exposed = EXPOSED_BY_DUTIES | EXPOSED
    for match in used:
        assert match[1] in exposed, f"{match[1]} is no metric of ours"
        labels = exposed[match[1]] | _OF_PROMETHEUS
        matchers = re.findall(r"(\w+)\s*[=!]~?=?", match[2] or "")
        assert set(matchers) <= labels
        known |= labels
    for grouped in _GROUPED.findall(expression):
        assert {label.strip() for label in grouped.split(",")} <= known
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_counters_are_only_used_as_rates(expression: str) -> None:
    for match in re.finditer(r"\b(loadstream_[a-z_]+_(?:total|bucket|sum|count))\b", expression):
        before = expression[: match.start()]
        assert re.search(r"(rate|increase)\($", before), match[1]


def test_alerts_are_rules_of_a_real_prometheus_and_fire_when_they_should() -> None:
    """Another copy that stands by is no help where nobody is active, and no alert where one is."""
    for arguments in (
        ["check", "rules", str(DEPLOY / "prometheus" / "alerts.yml")],
        ["test", "rules", str(Path(__file__).parent / "alerts_test.yml")],
    ):
        done = subprocess.run(  # noqa: S603 - our own words and paths
            [prometheus().with_name("promtool"), *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_legends_name_labels_that_the_query_keeps() -> None:
    for panel, target in _panels():
        grouped = _GROUPED.findall(target["expr"])
        if grouped and (wanted := set(_LEGEND.findall(target["legendFormat"]))):
            kept = set.union(*({label.strip() for label in each.split(",")} for each in grouped))
            assert wanted <= kept, panel["title"]


def test_the_dashboard_shows_the_clusters_that_are_chosen() -> None:
    (variable,) = DASHBOARD["templating"]["list"]
    assert (variable["name"], variable["includeAll"], variable["multi"]) == ("cluster", True, True)
    (asked,) = _METRIC.finditer(variable["definition"])
    assert "cluster" in EXPOSED[asked[1]]
    for panel, target in _panels():
        for match in _METRIC.finditer(target["expr"]):
            chosen = 'cluster=~"$cluster"' in (match[2] or "")
            exposed = EXPOSED_BY_DUTIES | EXPOSED
            assert chosen == ("cluster" in exposed[match[1]]), panel["title"]


def test_the_dashboard_shows_who_is_active_what_is_sent_done_and_measured() -> None:
    shown = {match[1] for _, target in _panels() for match in _METRIC.finditer(target["expr"])}
    assert shown >= {
        "loadstream_duty_active",
        "loadstream_duty_records_sent_total",
        "loadstream_duty_outcomes_total",
        "loadstream_source_last_success_timestamp_seconds",
        "loadstream_source_failing_nodes",
        "loadstream_source_behind_seconds",
    }


def test_a_clock_that_is_ahead_is_seen_on_the_dashboard() -> None:
    (panel,) = [panel for panel, target in _panels() if "clock_lag_seconds" in target["expr"]]
    assert "min" not in panel["fieldConfig"]["defaults"]


def test_what_a_person_asked_for_in_vain_raises_no_alert_on_dead_letters() -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == "LoadstreamDeadLetters"]
    assert 'topic!="migration-requests"' in rule["expr"]


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_panels_ask_the_data_source_that_is_provisioned() -> None:
    path = DEPLOY / "grafana/provisioning/datasources/prometheus.yml"
    (source,) = yaml.safe_load(path.read_text())["datasources"]
    for panel, target in _panels():
        assert panel["datasource"]["uid"] == target["datasource"]["uid"] == source["uid"]


def test_each_alert_has_a_severity_a_sentence_and_a_paragraph_in_the_runbook() -> None:
    runbook = (ROOT / "docs/how-to/alerts.md").read_text()
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"].endswith(".")
        assert f"### {rule['alert']}\n" in runbook, rule["alert"]
        labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        grouped = _GROUPED.findall(rule["expr"])
        if labels and grouped:
            assert labels <= {label.strip() for each in grouped for label in each.split(",")}
    told = re.findall(r"^### (Loadstream\w+)$", runbook, re.MULTILINE)
    assert sorted(told) == sorted(rule["alert"] for rule in RULES)


def test_every_metric_of_ours_is_documented_and_no_other() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text()
    told = set(re.findall(r"^\| `(loadstream_[a-z_]+)`", page, re.MULTILINE))
    ours = {
        re.sub(r"_(bucket|sum|count)$", "", name)
        for name in (*EXPOSED, *EXPOSED_BY_DUTIES)
        if name.startswith("loadstream_")
    }
    assert told == ours


def test_every_setting_of_a_worker_is_documented_and_no_other() -> None:
    text = (ROOT / "docs/reference/operations.md").read_text()
    told = set(re.findall(r"^\| `(LOADSTREAM_(?:WORKER|LOG)_\w+)`", text, re.MULTILINE))
    assert told == {
        f"{group.model_config.get('env_prefix')}{field.upper()}"
        for group in (WorkerSettings, LogSettings)
        for field in group.model_fields
    }


def test_a_clock_that_is_ahead_alerts_within_half_a_minute() -> None:
    """A scrape and an evaluation take 10 s each, and a worker looks every 5 s."""
    prometheus = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["global"]
    waited_s = sum(int(prometheus[each].removesuffix("s")) for each in prometheus) + LOOK_S
    assert waited_s <= 30
    by_name = {rule["alert"]: rule for rule in RULES}
    assert "for" not in by_name["LoadstreamClockAhead"]
