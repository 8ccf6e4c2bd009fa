"""Scenarios of LoadAwareScheduling: the records that would report them, and the answers to their questions.

A scenario names API objects and informer events; they become the messages that connectors would send and
are applied to a `ClusterState`, the agent's own. Every node is then asked about every pending pod in both
ways that a plugin answers, for all rows at once and for one row; if the two differ, the answer shows it.
"""

from collections.abc import Iterator
from typing import Any

from schemas.messages.metrics import NodeMetric
from schemas.messages.pods import Pod
from schemas.policy import LOAD_AWARE, Policy, PolicyError
from schemas.policy.sections.plugins import EnabledPlugin, PluginChoice, ScorePlugin
from streams.cluster.state import ClusterState, Position
from streams.pods.held_pod import HeldPod
from streams.pods.kind import kind_of
from tests.golden import objects
from tests.golden.comparison import Json, differences_by_round
from tests.golden.times import in_milliseconds
from tests.plugin_arguments import load_aware_args

_PLUGINS = PluginChoice(
    filter=(EnabledPlugin(name=LOAD_AWARE),), score=(ScorePlugin(name=LOAD_AWARE),)
)


def answer(scenario: Json) -> Json:
    """Return the answer in the form of the scenario's `expected`."""
    try:
        policy = policy_of(scenario["args"])
    except PolicyError as error:
        return {"error": str(error)}
    return {"rounds": list(World(policy, in_milliseconds(scenario)).rounds())}


def policy_of(args: Json) -> Policy:
    """Return the policy of a scenario's arguments.

    Raises:
        PolicyError: the arguments are refused.
    """
    ours = {name: value for name, value in args.items() if name != "estimator"}
    return Policy(compat="koordinator", load_aware=load_aware_args(ours), plugins=_PLUGINS)


def differences(expected: Json, answer: Json) -> Iterator[str]:
    """Yield one line per difference."""
    return differences_by_round(expected, answer, _of_round)


def _of_round(number: int, want: Json, got: Json) -> Iterator[str]:
    for pod in want:
        for node in want[pod]:
            if want[pod][node] != got[pod][node]:
                yield (
                    f"round {number}, pod {pod}, node {node}: "
                    f"expected {want[pod][node]}, found {got[pod][node]}"
                )


class World:
    """The cluster of a scenario."""

    def __init__(self, policy: Policy, scenario: Json) -> None:
        self.scenario = scenario
        self.state = ClusterState(objects.CLUSTER)
        self.state.set_policy(policy)
        self._offset = 0

    def rounds(self) -> Iterator[Json]:
        """Yield the answers of each round."""
        scenario = self.scenario
        for node in scenario["nodes"]:
            self._apply("node-state", objects.node(node))
        for pod in scenario["assignedPods"]:
            self.state.advance(objects.time_ms(pod["assignTime"]) or 0)
            self._apply("pod-lifecycle", objects.lifecycle("seen", pod))
        for metric in scenario["nodeMetrics"]:
            self._apply("node-metrics", objects.metric(metric))
        self.state.advance(objects.time_ms(scenario["now"]) or 0)
        yield self.evaluate()
        for step in scenario.get("then", ()):
            self.state.advance(objects.time_ms(step["now"]) or 0)
            for event in step["events"]:
                self._happen(event)
            yield self.evaluate()

    def _apply(self, topic: str, message: Any) -> None:
        self._offset += 1
        # Metrics of a scenario may be from the future, which the stage would refuse.
        if isinstance(message, NodeMetric):
            self.state.inventory.apply_metric(message)
            return
        self.state.apply(message, Position(topic, 0, self._offset, {topic: self._offset}))

    def _happen(self, event: Json) -> None:
        kind = event["type"]
        if kind == "metricUpdate":
            self._apply("node-metrics", objects.metric(event["nodeMetric"]))
        elif kind == "metricDelete":
            gone = NodeMetric(cluster=objects.CLUSTER, node=event["node"], removed=True)
            self._apply("node-metrics", gone)
        elif kind == "reserve":
            self._hold(objects.pod(event["pod"]), event["node"], first_seen=True)
        elif kind == "unreserve":
            self.state.inventory.release(event["pod"]["uid"], event["node"])
        elif kind == "podDelete":
            # Koordinator looks for the pod only on the node of the event.
            if event["pod"].get("node"):
                self.state.inventory.release(event["pod"]["uid"], event["pod"]["node"])
        elif kind == "podUpdate" and self._held_elsewhere(event):
            self._hold(objects.pod(event["pod"]), event["pod"]["node"], first_seen=False)
        else:
            name = {"podAdd": "seen", "podUpdate": "changed"}[kind]
            self._apply("pod-lifecycle", objects.lifecycle(name, event["pod"]))

    def _held_elsewhere(self, event: Json) -> bool:
        """Whether the pod is reserved on a third node, where Koordinator counts it until it is unreserved.

        The stage sees every reservation and frees the room on the third node at once.
        """
        node = event["pod"].get("node")
        held = self.state.inventory.node_of_pod.get(event["pod"]["uid"])
        return node is not None and held not in (None, node, event["oldPod"].get("node"))

    def _hold(self, pod: Pod, node: str, *, first_seen: bool) -> None:
        now_ms = self.state.now_ms or 0
        held = HeldPod(pod=pod, kind=kind_of(pod), assigned_at_ms=now_ms)
        self.state.inventory.hold(node, held, first_seen=first_seen)

    def evaluate(self) -> Json:
        """Filter and score every node for every pending pod."""
        placer = self.state.placement.placer
        index = self.state.inventory.update_index()
        placer.refresh()
        load_filter = placer.filters[0]
        load_score = placer.scores[0][0]
        answers: dict[str, dict[str, Json]] = {}
        for item in self.scenario["pods"]:
            pod = objects.pod(item)
            kind = kind_of(pod)
            filtered, scored = load_filter.prepare(kind), load_score.prepare(kind)
            mask, scores = load_filter.mask(filtered), load_score.scores(scored)
            of_pod = answers[f"{pod.namespace}/{pod.name}"] = {}
            for node in index.nodes:
                reason = load_filter.reason(filtered, node.row) or "ok"
                score: Any = int(load_score.score(scored, node.row))
                if (mask is None or bool(mask[node.row])) != (reason == "ok"):
                    reason = f"the mask says otherwise than: {reason}"
                if int(scores[node.row]) != score:
                    score = [score, int(scores[node.row])]
                of_pod[node.name] = {"filter": reason, "score": score}
        return answers
