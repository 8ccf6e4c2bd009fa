"""Explanations why no pod left a node."""

from tests.cases.case import case, cases
from tests.cases.cluster import Cluster, make_policy
from tests.streams.builders import container

_BY_RISK = make_policy(
    "plugins: {balance: [OverutilizationRisk]}\nriskMoves: {minPodAgeMinutes: 0}"
)


@cases(
    "5.unknown",
    ("n1 at 90 %; its metric is 10m19s old", "n1", "n1 is unknown: its metric is 10m19s old, at most 3m."),
    ("n3 was never measured", "n3", "n3 is unknown: no metric of it was found."),
    ("a node that nobody names", "n9", "n9 is unknown: no metric and no state names it. The name may be "
     "mistyped, or nothing measures the node (topic node-usage)."),
)  # fmt: skip
def say_first_that_a_node_is_unknown(node: str) -> str:
    cluster = Cluster(make_policy(), n1=90, n2=20, n3=None)
    cluster.add_pod("a", "n1", 20)
    cluster.measure()
    cluster.pass_minutes(10, measured=False)
    cluster.seconds = 619
    sentences = cluster.explain_node(node)
    invented = [text for text in sentences[1:] if "do not count" in text or "deduct" in text]
    return " | ".join([sentences[0], *invented])


@case(
    "5.377",
    "n1 uses 377 % of its cpu by its newest metric; risk does not call it hot: no invented deduction",
    right="That is above cpu 75 %, and OverutilizationRisk did not call it hot in the newest round. "
    "OverutilizationRisk judges a node by the expected usage of its pods, not by one metric.",
)
def explain_a_node_that_risk_does_not_call_hot() -> str:
    cluster = Cluster(_BY_RISK, n1=10, n2=20)
    cluster.pass_minutes(10)
    metric = cluster.metrics["n1"]
    cluster.metrics["n1"] = metric.model_copy(update={"usage": {"cpu": 37_700}})
    sentences = cluster.explain_node("n1")
    return " ".join(
        text for text in sentences if "is above cpu" in text or "by the expected usage" in text
    )


@cases(
    "5.strategy",
    ("n1 hot by thresholds: the strategy, measured usage of the node and its pod", make_policy(),
     "LowNodeLoad in pool __default_node_pool__; it uses cpu 8.5; pod: uses cpu 2"),
    ("n1 hot by risk: its pod's usage is an estimate", _BY_RISK,
     "OverutilizationRisk; it uses cpu 8.5; pod: expected cpu 1.887"),
)  # fmt: skip
def name_the_strategy_that_judged(policy: str) -> str:
    cluster = Cluster(policy, n1=85, n2=20)
    for uid in ("a", "b", "c", "d"):
        cluster.add_pod(uid, "n1", 20, containers=(container({"cpu": "2"}),))
    cluster.pass_minutes()
    text = " ".join(cluster.explain_node("n1"))
    strategy = text.partition("judged by ")[2].partition(": ")[0]
    node = "it uses cpu 8.5" if "it uses cpu 8.5 of 10" in text else text
    word = text.partition("Pod default/")[2].partition("(")[2].partition(",")[0]
    return f"{strategy}; {node}; pod: {word.partition(')')[0]}"


@case("5.left out", "n1 at 90 %; descheduling.nodeSelector does not select it",
      right="Rounds leave it out: descheduling.nodeSelector does not select it.")  # fmt: skip
def say_that_rounds_leave_out_a_node() -> str:
    policy = make_policy("descheduling: {nodeSelector: {matchLabels: {pool: web}}}")
    sentences = Cluster(policy, n1=90, n2=20).pass_minutes().explain_node("n1")
    return next((text for text in sentences if "nodeSelector" in text), " ".join(sentences))


@cases(
    "5.lowest",
    ("no target by thresholds: n1 95 %, n2 90 %, n3 88 %", make_policy(), "the lowest is n3 at cpu 88.0 %"),
    ("no target by risk", _BY_RISK, "the lowest is n3 at cpu 88.0 % and memory 10.0 %"),
)  # fmt: skip
def name_the_lowest_node(policy: str) -> str:
    cluster = Cluster(policy, n1=95, n2=90, n3=88)
    for uid in ("a", "b", "c", "d"):
        cluster.add_pod(uid, "n1", 20, containers=(container({"cpu": "2"}),))
    text = " ".join(cluster.pass_minutes().explain_node("n1"))
    return f"the lowest is {text.partition('the lowest is ')[2].partition(' %.')[0]} %"
