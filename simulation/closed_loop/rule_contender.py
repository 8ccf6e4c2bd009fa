"""A rule as a contender: binds each pod to the node that the rule chooses, and evicts no pod.

The contender knows as much as a scheduler with a metrics collector: current requests, and usage from
the same samples as the stages, with the same interval and delay. Bindings take effect immediately. A
pod that fits on no node is retried a minute later, in the order of arrival. Means cover 5 minutes, as
in the stages; Trimaran's collector uses up to 15 minutes.
"""

from collections import deque

import numpy as np

from simulation.closed_loop.rules.view import NodesView, Rule
from simulation.closed_loop.scenario import Array
from simulation.closed_loop.usage import Moment, get_plan_index
from simulation.closed_loop.world import World
from simulation.cluster.cluster import Observer
from simulation.cluster.kubelet import PodEvent
from simulation.cluster.pods import PodPlan

#: Windows of the mean and of the standard deviation.
MEAN_S, DEVIATION_S = 300, 900
#: A report includes pods that were bound at least this long before, as in Trimaran
#: (`metricsAgentReportingIntervalSeconds`).
REPORTED_AFTER_MS = 60_000
#: Time between two attempts to place a waiting pod.
RETRY_MS = 60_000

_CHOICES = 104


class RuleContender(Observer):
    def __init__(self, name: str, rule: Rule) -> None:
        self.name = name
        self._rule = rule

    def begin(self, world: World) -> None:
        parameters = world.scenario.parameters
        self._world = world
        self._random = np.random.default_rng([world.scenario.seed, _CHOICES])
        self._lag_ms = 1000 * parameters.lag_s
        nodes = len(world.scenario.machines)
        self._requested = np.zeros((nodes, 2))
        self._pods = np.zeros(nodes)
        self._unreported = np.zeros((nodes, 2))
        self._unreported_pods: list[dict[str, tuple[int, Array]]] = [{} for _ in range(nodes)]
        """Pods that the newest report of a node does not include, by node: time from which reports
        include the pod, and its request."""
        self._mean_samples = max(1, round(MEAN_S / parameters.sample_s))
        self._window = np.full((max(1, round(DEVIATION_S / parameters.sample_s)), nodes, 2), np.nan)
        """The newest samples of each node, oldest first."""
        self._measured = np.full((nodes, 2), np.nan)
        self._deviation = np.full((nodes, 2), np.nan)
        self._delayed_reports: deque[tuple[int, Moment, range]] = deque()
        self._waiting: deque[tuple[int, PodPlan]] = deque()
        """Waiting pods, and the time of the next attempt."""
        self._failed = 0
        world.cluster.observers.append(self)

    def on_request(self, plan: PodPlan) -> None:
        self._waiting.append((0, plan))

    def on_pod_event(self, event: PodEvent) -> None:
        """Count the requests of a pod that was bound or deleted."""
        if event.event not in ("bound", "deleted") or event.pod.node is None:
            return
        node = self._world.usage.node_indexes[event.pod.node]
        plan = self._world.scenario.plans[get_plan_index(event.pod.uid)]
        request = _read_request(plan)
        if event.event == "bound":
            self._requested[node] += request
            self._pods[node] += 1
            self._unreported_pods[node][event.pod.uid] = (event.at_ms + REPORTED_AFTER_MS, request)
            self._unreported[node] += request
        else:
            self._requested[node] -= request
            self._pods[node] -= 1
            if self._unreported_pods[node].pop(event.pod.uid, None) is not None:
                self._sum_unreported(node)

    def step(self, now_ms: int) -> None:
        """Read the reports that have arrived, and place waiting pods."""
        moment = self._world.usage.measure(now_ms)
        self._delayed_reports.append(
            (now_ms + self._lag_ms, moment, self._world.list_sampled_nodes(now_ms))
        )
        while self._delayed_reports and self._delayed_reports[0][0] <= now_ms:
            _, reported, nodes = self._delayed_reports.popleft()
            self._apply_report(reported, nodes)
        for _ in range(len(self._waiting)):
            at_ms, plan = self._waiting.popleft()
            if at_ms > now_ms or not self._place(plan):
                self._waiting.append((at_ms if at_ms > now_ms else now_ms + RETRY_MS, plan))

    def predict_hot(self) -> tuple[()]:
        return ()

    def get_counts(self) -> dict[str, int]:
        """Return the number of failed bindings, if there are any."""
        return {"bind_failed": self._failed} if self._failed else {}

    def _place(self, plan: PodPlan) -> bool:
        view = NodesView(
            allocatable=self._world.usage.allocatable,
            requested=self._requested,
            pods=self._pods,
            measured=self._measured,
            deviation=self._deviation,
            unreported=self._unreported,
        )
        node = self._rule(_read_request(plan), view, self._random)
        if node is None:
            return False
        reason = self._world.cluster.place(plan, self._world.scenario.machines[node].name)
        self._failed += reason is not None
        return reason is None

    def _apply_report(self, moment: Moment, nodes: range) -> None:
        index = np.array(nodes, dtype=np.intp)
        window = self._window
        window[:-1, index] = window[1:, index]
        window[-1, index] = moment.node_usage[index]
        self._measured[index] = np.nanmean(window[-self._mean_samples :, index], axis=0)
        self._deviation[index] = np.nanstd(window[:, index], axis=0)
        for node in nodes:
            pods = self._unreported_pods[node]
            reported = [
                uid for uid, (reported_ms, _) in pods.items() if reported_ms <= moment.at_ms
            ]
            for uid in reported:
                del pods[uid]
            if reported:
                self._sum_unreported(node)

    def _sum_unreported(self, node: int) -> None:
        requests = [request for _, request in self._unreported_pods[node].values()]
        self._unreported[node] = np.sum(requests, axis=0) if requests else 0.0


def _read_request(plan: PodPlan) -> Array:
    return np.array([plan.requests["cpu"], plan.requests["memory"]], dtype=np.float64)
