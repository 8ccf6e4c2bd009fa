"""`skipEvictionGates`: names of the checks before an eviction that a policy may pass over.

`DoNotDisrupt`, `JobFailures` and `ScalingDown` are ours; the others are upstream's.

What is always checked has no name here: that the pod is there and where it was, that it is not
moving already, the limits on commands, disruption budgets, maintenance windows.
"""

from typing import Literal, get_args

EvictionGate = Literal[
    "Namespaces",
    "LabelSelector",
    "NodeSelector",
    "NodeFit",
    "BarePods",
    "LocalStoragePods",
    "SystemCriticalPods",
    "PVCPods",
    "PriorityThreshold",
    "ExpectedReplicas",
    "MaxMigratingGlobally",
    "MaxMigratingPerNode",
    "MaxMigratingPerNamespace",
    "MaxMigratingPerWorkload",
    "MaxUnavailablePerWorkload",
    "DoNotDisrupt",
    "JobFailures",
    "ScalingDown",
]

#: What each gate checks; skipping it lifts exactly that.
GATES: dict[EvictionGate, str] = {
    "Namespaces": "migration.namespaces",
    "LabelSelector": "labelSelector of migration and evictor",
    "NodeSelector": "nodeSelector of migration and evictor",
    "NodeFit": "nodeFit of migration and evictor",
    "BarePods": "pods without an owner",
    "LocalStoragePods": "pods with volumes of type emptyDir or hostPath",
    "SystemCriticalPods": "pods of priority 2000000000 and above",
    "PVCPods": "pods with volume claims",
    "PriorityThreshold": "priorityThreshold of migration and evictor",
    "ExpectedReplicas": "workloads with as few replicas as may move at once",
    "MaxMigratingGlobally": "maxMigratingGlobally",
    "MaxMigratingPerNode": "maxMigratingPerNode",
    "MaxMigratingPerNamespace": "maxMigratingPerNamespace",
    "MaxMigratingPerWorkload": "maxMigratingPerWorkload",
    "MaxUnavailablePerWorkload": "maxUnavailablePerWorkload",
    "DoNotDisrupt": 'annotations of Karpenter and cluster-autoscaler, and evict: "false"',
    "JobFailures": "pods whose eviction counts as a failure of their Job",
    "ScalingDown": "workloads whose replicas were lowered in the last 5 minutes",
}
EVICTION_GATES: tuple[str, ...] = get_args(EvictionGate)
