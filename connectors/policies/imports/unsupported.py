"""Plugins that loadstream does not have, and what to use instead."""

from connectors.policies.imports.translation import Group

_REFUSED = "a pod that needs it is refused by name: leave such pods to another scheduler"
_SPREAD = "it fills nodes, while loadstream keeps their load even: there is no equivalent"
_NOT_LOAD = (
    "it is not about load: keep the Kubernetes descheduler for it, without LowNodeUtilization"
)
_KOORD = "keep koord-scheduler for pods that need it"

_HANDLED = {
    "PrioritySort": "waiting pods of a higher priority are placed first",
    "DefaultBinder": "`loadstream kubernetes bind` binds",
    "SchedulingGates": "a pod with scheduling gates is not placed",
    "PodTopologySpread": _REFUSED,
    "InterPodAffinity": _REFUSED,
    "VolumeBinding": _REFUSED,
    "VolumeRestrictions": _REFUSED,
    "VolumeZone": _REFUSED,
    "NodeVolumeLimits": _REFUSED,
    "DynamicResources": _REFUSED,
}
_LOST = {
    # Of the Kubernetes scheduler.
    "DefaultPreemption": "pods are not preempted",
    "ImageLocality": "use the score NodeResourcesFit or OverutilizationRisk",
    # Of Trimaran and its neighbours.
    "TargetLoadPacking": _SPREAD,
    "Peaks": "it saves power by filling nodes; loadstream keeps their load even",
    "NodeResourcesAllocatable": "use the score NodeResourcesFit",
    "NodeResourcesMostAllocated": _SPREAD,
    "Coscheduling": f"pods are placed one by one; {_KOORD}",
    "CapacityScheduling": "use a ResourceQuota for each namespace",
    "NodeResourceTopologyMatch": "keep the scheduler that has it for pods that need it",
    # Of Koordinator's scheduler.
    "ElasticQuota": f"use a ResourceQuota for each namespace, or {_KOORD}",
    "Reservation": f"room for moved pods is reserved by section migration; for other objects {_KOORD}",
    "NodeNUMAResource": _KOORD,
    "DeviceShare": _KOORD,
    "NodeResourcesFitPlus": "use the score NodeResourcesFit or OverutilizationRisk",
    "ScarceResourceAvoidance": "use taints on the nodes with the scarce resource",
    "BatchResourceFit": _KOORD,
    "DefaultPreBind": _KOORD,
    # Of the Kubernetes descheduler and Koordinator's.
    "HighNodeUtilization": _SPREAD,
    "RemoveDuplicates": _NOT_LOAD,
    "RemoveFailedPods": _NOT_LOAD,
    "RemovePodsHavingTooManyRestarts": _NOT_LOAD,
    "PodLifeTime": _NOT_LOAD,
    "RemovePodsViolatingInterPodAntiAffinity": _NOT_LOAD,
    "RemovePodsViolatingNodeAffinity": _NOT_LOAD,
    "RemovePodsViolatingNodeTaints": _NOT_LOAD,
    "RemovePodsViolatingTopologySpreadConstraint": _NOT_LOAD,
    "CustomPriority": "use riskMoves, which moves pods for load alone",
    "FragmentationAware": "use the score NodeResourcesBalancedAllocation",
    "ScaleDownBinPack": _SPREAD,
}
UNSUPPORTED: dict[str, tuple[Group, str]] = {
    **{name: ("handled elsewhere", text) for name, text in _HANDLED.items()},
    **{name: ("lost", text) for name, text in _LOST.items()},
}
#: Plugins of deschedulers that run at `balance`, and do nothing elsewhere.
BALANCE = frozenset(
    (
        "LowNodeLoad",
        "LowNodeUtilization",
        "HighNodeUtilization",
        "RemoveDuplicates",
        "RemovePodsViolatingTopologySpreadConstraint",
    )
)
