"""Policy files, and configurations of other systems: one error per mistake, nothing half applied."""

from schemas.policy import PolicyError, read_policy
from streams.placement.registry import KNOWN
from tests.cases.case import case, cases
from tests.connectors.policies.imports.harness import (
    DESCHEDULER,
    KOORDINATOR,
    OPENSHIFT,
    SCHEDULER,
    import_text,
)


def check(document: str, word: str) -> str:
    """`error` or `warning` with the word that one names, else all that is said, or `accepted`."""
    try:
        policy = read_policy(document, KNOWN)
    except PolicyError as error:
        texts, kind = [str(each) for each in error.problems], "error"
    else:
        texts, kind = [str(each) for each in policy.warnings], "warning"
    if not texts:
        return "accepted"
    return (
        f"{kind}: {word}" if any(word in text for text in texts) else f"{kind}: {'; '.join(texts)}"
    )


_LOW_HIGH = "plugins: {{balance: [LowNodeLoad]}}\nrebalance: {{lowThresholds: {{cpu: {}}}, highThresholds: {{cpu: {}}}}}\n"
_KOORDINATOR = "compat: koordinator\n"


@cases(
    "5.policy",
    ("plugins.balance: [LowNodeLaod]", ("plugins: {balance: [LowNodeLaod]}", "LowNodeLoad"), "error: LowNodeLoad"),
    ("plugins.score: [LoadAwareSchedulin]",
     ("plugins: {score: [LoadAwareSchedulin]}", "LoadAwareScheduling"), "error: LoadAwareScheduling"),
    ("section reblance", ("reblance: {}", "rebalance"), "error: rebalance"),
    ("a gate ExpectedReplica in skipEvictionGates",
     ("migration: {skipEvictionGates: [ExpectedReplica]}", "ExpectedReplicas"), "error: ExpectedReplicas"),
    ("loadAware.usageThresholds.memroy", ("loadAware: {usageThresholds: {memroy: 50}}", "memroy"),
     "error: memroy"),
    ("rebalance thresholds of memroy", (_LOW_HIGH.format(30, 70).replace("cpu", "memroy"), "memroy"),
     "error: memroy"),
    ("overutilizationRisk.resources: memroy",
     ("overutilizationRisk: {resources: [{name: memroy}]}", "memroy"), "error: memroy"),
    ("a resource with a slash, example.com/gpu",
     ("loadAware: {usageThresholds: {example.com/gpu: 50}}", "gpu"), "accepted"),
    ("low 80 above high 70", (_LOW_HIGH.format(80, 70), "lowThresholds"), "error: lowThresholds"),
    ("low equal to high, compat: koordinator",
     (_KOORDINATOR + _LOW_HIGH.format(70, 70), "lowThresholds"), "accepted"),
    ("low equal to high, 70", (_LOW_HIGH.format(70, 70), "lowThresholds"), "warning: lowThresholds"),
    ("100/100 switches a resource off", (_LOW_HIGH.format(100, 100), "lowThresholds"), "accepted"),
    ("loadAware cpu 120", ("loadAware: {usageThresholds: {cpu: 120}}", "120"), "error: 120"),
    ("pods 200/250, meant as a number of pods", (_LOW_HIGH.format(200, 250).replace("cpu", "pods"), "pods"),
     "error: pods"),
    ("LowNodeLoad among filters", ("plugins: {filter: [LowNodeLoad]}", "plugins.filter"), "error: plugins.filter"),
    ("high 60 below the placement threshold 75",
     (_LOW_HIGH.format(30, 60) + "loadAware: {usageThresholds: {cpu: 75}}", "highThresholds"),
     "warning: highThresholds"),
    ("high 80 above the placement threshold 75",
     (_LOW_HIGH.format(30, 80) + "loadAware: {usageThresholds: {cpu: 75}}", "highThresholds"), "accepted"),
    ("hotPercent 60 of moves by risk below the placement threshold 75", (
        "overutilizationRisk: {resources: [{name: cpu, hotPercent: 60}]}\nplugins: {balance: "
        "[OverutilizationRisk]}\nloadAware: {usageThresholds: {cpu: 75}}", "hotPercent"),
     "warning: hotPercent"),
    ("maxMigratingPerWorkload 100% with single replicas",
     ("migration: {maxMigratingPerWorkload: 100%}", "maxMigratingPerWorkload"),
     "warning: maxMigratingPerWorkload"),
    ("rounds each 10m, counters forgotten after 5m, compat: koordinator",
     (_KOORDINATOR + _LOW_HIGH.format(30, 70) + "descheduling: {deschedulingInterval: 10m}", "Interval"),
     "warning: Interval"),
    ("a maintenance window of a pool that is never open while all others are",
     ('maintenance: {windows: [{from: "01:00", to: "02:00"}], namespaces: [{name: shop, windows: '
      '[{from: "03:00", to: "04:00"}]}]}', "maintenance"), "warning: maintenance"),
    ("p95 over 15m, which collect does not record",
     ("plugins: {filter: [LoadAwareScheduling]}\nloadAware: {aggregated: {usageThresholds: {cpu: 65}, "
      "usageAggregationType: p95, usageAggregatedDuration: 15m}}", "usageAggregatedDuration"),
     "warning: usageAggregatedDuration"),
    ("section resourceLimits without its plugin",
     ("resourceLimits: {defaultLimit: {cpu: allocatable}}", "resourceLimits"), "warning: resourceLimits"),
    ("the default policy", ("", ""), "accepted"),
)  # fmt: skip
@cases(
    "5.effect",
    ("a statistic of a window without thresholds for it",
     ("loadAware: {aggregated: {usageAggregationType: p95}}", "usageAggregationType"),
     "warning: usageAggregationType"),
    ("an argument of a score that is not enabled",
     ("loadAware: {scoreAccordingProdUsage: true}", "scoreAccordingProdUsage"),
     "warning: scoreAccordingProdUsage"),
    ("a filter list with LoadAwareScheduling alone",
     ("plugins: {filter: [LoadAwareScheduling]}", "NodeResourcesFit"), "warning: NodeResourcesFit"),
    ("nvidia.com/ without the name behind the slash",
     ("loadAware: {usageThresholds: {nvidia.com/: 50}}", "nvidia.com/"), "error: nvidia.com/"),
)  # fmt: skip
def check_a_policy(given: tuple[str, str]) -> str:
    return check(*given)


# --- configurations of other systems -------------------------------------------------------------


def _descheduler(
    args: str = "", *, kind: str = "balance", plugin: str = "LowNodeUtilization", more: str = ""
) -> str:
    default = "metricsUtilization: {source: KubernetesMetrics}, thresholds: {cpu: 20}, targetThresholds: {cpu: 50}"
    return (
        f"{DESCHEDULER}{more}profiles:\n- name: p\n  pluginConfig:\n  - name: LowNodeUtilization\n"
        f"    args: {{{args or default}}}\n  plugins: {{{kind}: {{enabled: [{plugin}]}}}}\n"
    )


def _scheduler(plugins: str, config: str = "") -> str:
    return (
        f"{SCHEDULER}profiles:\n- schedulerName: s\n  plugins: {{score: {{{plugins}}}}}\n{config}"
    )


_BROKEN = (
    KOORDINATOR
    + """profiles:
- name: koord-descheduler
  pluginConfig:
  - name: LowNodeLoad
    args:
      evictableNamespaces:
        only these namespaces:
        - shop
      lowThresholds: {cpu: 30}
      highThresholds: {cpu: 60}
  plugins: {balance: {enabled: [{name: LowNodeLoad}]}}
"""
)
_SLO = """kind: ConfigMap
data:
  resource-threshold-config: |
    {"clusterStrategy": {"enable": true, "memoryEvictThresholdPercent": 65}}
---
""" + _scheduler("enabled: [{name: LoadAwareScheduling}]", "  pluginConfig:\n  - name: LoadAwareScheduling\n"
                 "    args: {usageThresholds: {memory: 95}}\n")  # fmt: skip


@cases(
    "34",
    ("a remark inside a key: `only these namespaces:`", (_BROKEN, "allowed: include, exclude"),
     "line 9: allowed: include, exclude"),
    ("metricsUtilization.sorce", (_descheduler("metricsUtilization: {sorce: KubernetesMetrics}, thresholds: "
     "{cpu: 20}, targetThresholds: {cpu: 50}"), 'did you mean "source"?'), 'line 7: did you mean "source"?'),
    ("podProtections at the top level", (_descheduler(more="podProtections: {}\n"), "DefaultEvictor"),
     "line 3: DefaultEvictor"),
    ("a balance plugin under deschedule", (_descheduler(kind="deschedule"), "name it under balance"),
     "lost LowNodeUtilization: name it under balance"),
    ("thresholds of pods meant as a number: 200, 250", (_descheduler("metricsUtilization: {source: "
     "KubernetesMetrics}, thresholds: {pods: 200}, targetThresholds: {pods: 250}"), "200"), "line 7: 200"),
    ("NodeResourcesFitPlus with arguments of another kind",
     (_scheduler("enabled: [{name: NodeResourcesFitPlus}]"), "NodeResourcesFit"),
     "lost NodeResourcesFitPlus: NodeResourcesFit"),
    ("NodeResourceFit (misspelt) is disabled",
     (_scheduler("disabled: [{name: NodeResourceFit}], enabled: [{name: LoadAwareScheduling}]"),
      'did you mean "NodeResourcesFit"?'), 'lost NodeResourceFit: did you mean "NodeResourcesFit"?'),
    ("a strategy EmptyNode, which nobody has", (_descheduler(plugin="EmptyNode"), "no such plugin"),
     "lost EmptyNode: no such plugin"),
    ("thresholds without metricsUtilization: the author believes that they are of usage",
     (_descheduler("thresholds: {cpu: 20}, targetThresholds: {cpu: 50}"), "the thresholds were for requests"),
     "taken over LowNodeUtilization: the thresholds were for requests"),
    ("one query by deviation: MetricResource", (_descheduler(
        "metricsUtilization: {source: Prometheus, prometheus: {query: 'instance:node_cpu:rate:sum'}}, "
        "useDeviationThresholds: true, thresholds: {MetricResource: 10}, targetThresholds: {MetricResource: 10}"),
      "cpu"), "taken over MetricResource: cpu"),
    ("OpenShift's profile KubeVirtRelieveAndMigrate",
     (OPENSHIFT + "spec: {profiles: [KubeVirtRelieveAndMigrate]}\n", "by real cpu usage"),
     "taken over KubeVirtRelieveAndMigrate: by real cpu usage"),
    ("a Helm template that is not rendered", ("data:\n  a: {{ .Values.b }}\n", "helm template"), "line 2: helm template"),
    ("Trimaran's TargetLoadPacking", (_scheduler("enabled: [{name: TargetLoadPacking}]"), "it fills nodes"),
     "lost TargetLoadPacking: it fills nodes"),
)  # fmt: skip
def import_a_configuration(given: tuple[str, str]) -> str:
    text, word = given
    found = import_text(text)
    for line in found.errors:
        if word in line and ":" in line.removeprefix("standard input:"):
            return f"line {line.split(':')[1]}: {word}"
    for group, entries in found.report.items():
        for name, sentence in entries.items():
            if word in sentence:
                return f"{group} {name}: {word}"
    return f"{found.errors} {found.report.get('lost', found.report)}"


@case("31", "memoryEvictThresholdPercent 65 for BE pods, usageThresholds.memory 95, in one import",
      right="warned")  # fmt: skip
def warn_of_marks_that_contradict() -> str:
    found = import_text(_SLO)
    return "warned" if any("65" in line and "95" in line for line in found.errors) else "not warned"
