"""What the examples have in common: the cluster, its node, two pods, and the moment."""

from schemas.decisions import AsOf
from schemas.lists import ListBegin, ListEnd
from schemas.pods import Container, OwnerReference, Pod, PodRef, Toleration

CLUSTER = "prod-eu"
NODE = "worker-7"
NOW_MS = 1_793_181_600_000

GIB = 2**30
LIST_BEGIN = ListBegin(cluster=CLUSTER, list_id="prod-eu-1793181600000")
LIST_END = ListEnd(cluster=CLUSTER, list_id="prod-eu-1793181600000")
WEB = PodRef(
    namespace="shop", name="web-6d4cf56db6-x2x7q", uid="2f6a1c1e-7b0e-4c39-9a55-0d1b8e6f4a10"
)
REPORT = PodRef(
    namespace="reports", name="nightly-28931-lw9bz", uid="8f0d7c52-51a5-4ef2-8f0e-9d6f3f1b2c77"
)
AS_OF = AsOf(
    partition=2,
    offsets={"clock": 86_399, "node-metrics": 51_200, "node-state": 412, "pod-lifecycle": 9_310,
             "policies": 3, "scheduling-requests": 7_001},
    policy_digest="9c2f1d7be0a4",
)  # fmt: skip

POD = Pod(
    namespace=WEB.namespace,
    name=WEB.name,
    uid=WEB.uid,
    scheduler="loadstream",
    priority=9_500,
    qos_class="Burstable",
    labels={"app": "web", "koordinator.sh/qosClass": "LS"},
    owners=(OwnerReference(kind="ReplicaSet", name="web-6d4cf56db6", uid="b7c1", controller=True),),
    containers=(
        Container(
            requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "2", "memory": "1.5Gi"}
        ),
    ),
    node_selector={"kubernetes.io/os": "linux"},
    tolerations=(Toleration(key="dedicated", operator="Equal", value="web", effect="NoSchedule"),),
    created_at_ms=NOW_MS - 1_500,
)
