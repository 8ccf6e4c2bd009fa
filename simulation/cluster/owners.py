"""Workloads of a simulated cluster: replicas, healthy pods, replacements of evicted pods.

A pod belongs to the controller in its owner references. The number of replicas of a workload increases
when a pod requests a node, and decreases when a pod ends. Evictions do not change the number: the
controller creates a replacement with the same requests and the remaining lifetime. In namespaces with
budgets, one pod of a workload may be disrupted at a time.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from schemas.messages.objects import DisruptionBudget, WorkloadState
from schemas.messages.pods import OwnerReference, Pod, PodSelector
from simulation.cluster.kubelet import PodEvent, RunningPod
from simulation.cluster.pods import PodPlan

#: Shortest lifetime of a replacement.
_LIFE_MIN_MS = 60_000
#: End of the name of a replacement: its number.
_NUMBER = re.compile(r"\.\d+$")


@dataclass(slots=True)
class _Workload:
    reference: OwnerReference
    namespace: str
    labels: dict[str, str]
    pods: dict[str, Literal["wanted", "ready"]] = field(default_factory=dict)
    """Desired pods, by uid."""

    @property
    def healthy(self) -> int:
        return sum(state == "ready" for state in self.pods.values())

    @property
    def desired_healthy(self) -> int:
        return max(0, len(self.pods) - 1)

    @property
    def allowed_disruptions(self) -> int:
        return max(0, self.healthy - self.desired_healthy)


class Owners:
    """All workloads of one cluster."""

    def __init__(self, cluster: str, budgeted: frozenset[str] = frozenset()) -> None:
        """Workloads in the namespaces `budgeted` have disruption budgets."""
        self._cluster = cluster
        self._budgeted = budgeted
        self._workloads: dict[str, _Workload] = {}
        self._changed: dict[str, None] = {}
        self._reported: dict[str, int] = {}
        """Replicas reported last, by uid."""
        self._replacements: dict[str, int] = {}
        """Number of replacements, by uid of the original pod."""

    def add_pod(self, pod: Pod) -> None:
        """Count a new pod as desired."""
        reference = _find_controller(pod)
        if reference is None:
            return
        workload = self._workloads.get(reference.uid)
        if workload is None:
            labels = {"app": pod.labels["app"]} if "app" in pod.labels else {}
            workload = _Workload(reference, pod.namespace, labels)
            self._workloads[reference.uid] = workload
        workload.pods[pod.uid] = "wanted"
        self._changed[reference.uid] = None

    def remove_pod(self, pod: Pod) -> None:
        """Stop counting a pod that is no longer desired or was evicted."""
        reference = _find_controller(pod)
        if reference is not None and reference.uid in self._workloads:
            self._workloads[reference.uid].pods.pop(pod.uid, None)
            self._changed[reference.uid] = None

    def handle_event(self, event: PodEvent) -> None:
        if event.event == "deleted":
            self.remove_pod(event.pod)
            return
        reference = _find_controller(event.pod)
        if event.event == "running" and reference is not None:
            workload = self._workloads[reference.uid]
            if event.pod.uid in workload.pods:
                workload.pods[event.pod.uid] = "ready"
                self._changed[reference.uid] = None

    def count_allowed_disruptions(self, pod: Pod) -> int | None:
        """Return how many pods of the pod's workload may be disrupted; None without a budget."""
        reference = _find_controller(pod)
        if reference is None or pod.namespace not in self._budgeted:
            return None
        return self._workloads[reference.uid].allowed_disruptions

    def replace_pod(self, running: RunningPod, now_ms: int) -> PodPlan | None:
        """Return the replacement of an evicted pod, or None if the pod has no controller."""
        plan, old = running.plan, running.pod
        self.remove_pod(old)
        if _find_controller(old) is None:
            return None
        stem, uid_stem = _NUMBER.sub("", old.name), _NUMBER.sub("", old.uid)
        number = self._replacements[uid_stem] = self._replacements.get(uid_stem, 0) + 1
        pod = plan.pod.model_copy(
            update={
                "name": f"{stem}.{number}", "uid": f"{uid_stem}.{number}", "node": None,
                "phase": "Pending", "ready": False, "created_at_ms": now_ms,
                "scheduled_at_ms": None, "initialized_at_ms": None, "deleting_at_ms": None,
            }
        )  # fmt: skip
        self.add_pod(pod)
        lived_ms = max(0, now_ms - running.started_ms)
        life_ms = max(_LIFE_MIN_MS, plan.life_ms - lived_ms)
        return replace(plan, pod=pod, at_ms=now_ms, life_ms=life_ms)

    def collect_changes(
        self, list_id: str | None = None
    ) -> Iterator[WorkloadState | DisruptionBudget]:
        """Yield workloads and budgets that changed since the last call, or all for a full list."""
        names = self._workloads if list_id is not None else self._changed
        for uid in list(names):
            workload = self._workloads[uid]
            replicas = len(workload.pods)
            if list_id is not None or self._reported.get(uid) != replicas:
                yield self._build_state(workload, list_id)
            if workload.namespace in self._budgeted:
                yield self._build_budget(workload, list_id)
            self._reported[uid] = replicas
        self._changed.clear()

    def _build_state(self, workload: _Workload, list_id: str | None) -> WorkloadState:
        reference = workload.reference
        return WorkloadState(
            cluster=self._cluster,
            uid=reference.uid,
            owner_kind=reference.kind,
            namespace=workload.namespace,
            name=reference.name,
            replicas=len(workload.pods),
            list_id=list_id,
        )

    def _build_budget(self, workload: _Workload, list_id: str | None) -> DisruptionBudget:
        return DisruptionBudget(
            cluster=self._cluster,
            namespace=workload.namespace,
            name=workload.reference.name,
            selector=PodSelector(match_labels=workload.labels),
            disruptions_allowed=workload.allowed_disruptions,
            current_healthy=workload.healthy,
            desired_healthy=workload.desired_healthy,
            expected_pods=len(workload.pods),
            list_id=list_id,
        )


def _find_controller(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.owners if owner.controller), None)
