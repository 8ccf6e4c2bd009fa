"""A small Kubernetes cluster that reports itself: nodes, owners, pods, and what nodes use.

It is coherent, so that histories go deep: pods have owners that replace them, what is bound is on
its node, a node is hot for a while and then is not. Payloads are plain values as producers write
them; amounts are few, so that nodes fill up.
"""

from random import Random
from typing import Any

from schemas.topics.partitions import partition_for

Payload = dict[str, Any]

#: The partition that a history is of, and how many there are: some keys belong elsewhere.
PARTITION, PARTITIONS = 1, 4
START_MS = 1_790_000_000_000
GIB = 1024**3

_KINDS = (*["ReplicaSet"] * 8, "StatefulSet", "StatefulSet", "DaemonSet", "Job")
_CPU = ("0", "100m", "250m", "500m", "1", "1500m", "2")
_MEMORY = ("0", "64Mi", "500M", "1Gi", "1e9", "2Gi")
_NAMESPACES = ("default", "default", "shop", "kube-system")
_THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
_RAW = "node.koordinator.sh/raw-allocatable"
_FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
_ANNOTATIONS: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {_THRESHOLDS: '{"usageThresholds": {"cpu": 30}}'},
    {_THRESHOLDS: '{"usageThresholds": {"cpu": "x"'},
    {_RAW: '{"cpu": "2", "memory": "4Gi"}'},
    {_RAW: "{}"},
)


def cluster_name(random: Random) -> str:
    """A name that belongs to the history's partition; now and then an odd one."""
    base = random.choice(("c", "west", "größe", 'qu"ote\\', "x" * 240, "\u202ename"))
    number = 0
    while partition_for(f"{base}{number}".encode(), PARTITIONS) != PARTITION:
        number += 1
    return f"{base}{number}"


class World:
    """One cluster as it is outside of the stage."""

    def __init__(self, random: Random, cluster: str) -> None:
        self.random = random
        self.cluster = cluster
        self.now_ms = START_MS
        self.nodes: dict[str, Payload] = {}
        self.pods: dict[str, Payload] = {}
        """Pods that are there, by uid; those on a node name it."""
        self.owners: dict[str, Payload] = {}
        self.hot: set[str] = set()
        self._made = 0
        for _ in range(random.randint(2, 10)):
            self.add_node()
        for _ in range(random.randint(1, 5)):
            self.add_owner()

    # --- what there is ----------------------------------------------------------------------------

    def add_node(self) -> Payload:
        """A node joins."""
        random = self.random
        self._made += 1
        name = f"n{self._made}" if random.random() < 0.95 else f'n"{self._made}\\ü'
        node: Payload = {"node": name, "event": "added"}
        self.nodes[name] = node
        self.change_node(name)
        return node

    def change_node(self, name: str) -> Payload:
        """A node is another one than before, in some way."""
        random, node = self.random, self.nodes[name]
        node["allocatable"] = {
            "cpu": random.choice(("4", "8", "8", "16", "1500m")),
            "memory": random.choice(("4Gi", "16Gi", "32Gi")),
            "pods": random.choice((*["110"] * 8, "5", "1", "0")),
        }
        if random.random() < 0.2:
            node["allocatable"]["example.com/gpu"] = "2"
        node["labels"] = {"pool": random.choice(("warm", "cold")), "zone": random.choice("ab")}
        node["annotations"] = dict(random.choice(_ANNOTATIONS))
        node["taints"] = []
        if random.random() < 0.15:
            effect = random.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
            node["taints"] = [{"key": "dedicated", "value": "batch", "effect": effect}]
        node["unschedulable"] = random.random() < 0.1
        return node

    def add_owner(self) -> Payload:
        """A controller that wants pods."""
        random = self.random
        self._made += 1
        owner = {
            "uid": f"owner-{self._made}",
            "owner_kind": random.choice(_KINDS),
            "namespace": random.choice(_NAMESPACES),
            "name": random.choice(("web", "db", "batch")),
            "replicas": random.choice((0, 1, 3, 5, 8, 12)),
        }
        self.owners[str(owner["uid"])] = owner
        return owner

    def new_pod(self) -> Payload:
        """A pod that has no node yet."""
        random = self.random
        self._made += 1
        uid = f"pod-{self._made}" if random.random() < 0.95 else f'pod/{self._made}/"'
        amounts = {"cpu": random.choice(_CPU), "memory": random.choice(_MEMORY)}
        container: Payload = {"requests": amounts}
        if random.random() < 0.7:
            container["limits"] = dict(amounts)
        pod: Payload = {
            "namespace": "default",
            "name": f"p{self._made}",
            "uid": uid,
            "scheduler": random.choice(("koord-scheduler", "koord-scheduler", "default-scheduler")),
            "containers": [container],
            "phase": "Pending",
            "priority": random.choice((*[None] * 4, *[0] * 8, 5_500, 9_500, 2_000_000_000)),
            "created_at_ms": self.now_ms,
        }
        if self.owners and random.random() < 0.9:
            self.give_owner(pod)
        for name, value in _requirements(random).items():
            pod[name] = value
        self.pods[uid] = pod
        return pod

    def give_owner(self, pod: Payload) -> None:
        """A controller takes a pod over: it had none, or another one."""
        owner = self.random.choice(list(self.owners.values()))
        reference = {"kind": owner["owner_kind"], "name": owner["name"], "uid": owner["uid"]}
        pod["owners"] = [{**reference, "controller": self.random.random() < 0.95}]
        pod["labels"] = {"app": owner["name"]}
        if pod.get("node") is None:
            pod["namespace"] = owner["namespace"]

    def on_nodes(self) -> list[Payload]:
        """Pods that are on a node."""
        return [pod for pod in self.pods.values() if pod.get("node") is not None]

    # --- messages -----------------------------------------------------------------------------------

    def node_state(self, node: Payload, **fields: Any) -> Payload:
        """What is said of a node."""
        return {"schema_version": 1, "cluster": self.cluster, "kind": "node", **node, **fields}

    def lifecycle(self, event: str, pod: Payload, **fields: Any) -> Payload:
        """What is said of a pod."""
        head = {"schema_version": 1, "cluster": self.cluster, "kind": "pod", "event": event}
        return {**head, "pod": dict(pod), **fields}

    def workload(self, owner: Payload, **fields: Any) -> Payload:
        """What is said of an owner."""
        head = {"schema_version": 1, "cluster": self.cluster, "kind": "workload"}
        return {**head, **owner, **fields}

    def budget(self, **fields: Any) -> Payload:
        """What is said of a disruption budget."""
        random = self.random
        app = random.choice(("web", "db", "batch"))
        return {
            "schema_version": 1,
            "cluster": self.cluster,
            "kind": "disruption-budget",
            "namespace": random.choice(_NAMESPACES),
            "name": app,
            "selector": random.choice((*[{"match_labels": {"app": app}}] * 6, {}, None)),
            "disruptions_allowed": random.choice((0, 1, 3, 10)),
            "current_healthy": 3,
            "desired_healthy": 2,
            "expected_pods": 3,
            **fields,
        }

    def namespace(self, **fields: Any) -> Payload:
        """What is said of a namespace."""
        random = self.random
        return {
            "schema_version": 1,
            "cluster": self.cluster,
            "kind": "namespace",
            "name": random.choice(_NAMESPACES),
            "labels": random.choice(({}, {"team": "shop"}, {"team": "shop", "evict": "no"})),
            **fields,
        }

    def priority_class(self, **fields: Any) -> Payload:
        """What is said of a priority class."""
        random = self.random
        return {
            "schema_version": 1,
            "cluster": self.cluster,
            "kind": "priority-class",
            "name": random.choice(("high", "system-cluster-critical")),
            "value": random.choice((0, 5_500, 10_000, -(2**31), 2**31 - 1)),
            **fields,
        }

    def request(self, pod: Payload, **fields: Any) -> Payload:
        """A pod wants a node."""
        head = {"schema_version": 1, "cluster": self.cluster, "pod": dict(pod)}
        return {**head, "requested_at_ms": self.now_ms, **fields}

    def metric(self, name: str, **fields: Any) -> Payload:
        """What a node and the pods on it used of late."""
        random = self.random
        here = [pod for pod in self.pods.values() if pod.get("node") == name]
        each = random.choice((700, 900) if name in self.hot else (10, 50, 200))
        pods = [
            {
                "namespace": pod["namespace"],
                "name": pod["name"],
                "usage": {"cpu": each, "memory": GIB // 8},
                "priority_class": random.choice(("", "koord-prod", "koord-batch")),
            }
            for pod in here
            if random.random() < 0.95
        ]
        floor = 3_500 if name in self.hot else 50
        usage = {"cpu": floor + each * len(here), "memory": GIB // 4 + len(here) * GIB // 8}
        metric: Payload = {
            "schema_version": 1,
            "cluster": self.cluster,
            "node": name,
            "updated_at_ms": self.now_ms - random.choice((0, 0, 0, 0, 0, 1_000, 59_000, 200_000)),
            "usage": usage,
            "system_usage": {"cpu": 100},
            "pods": pods,
            "samples": random.randint(0, 30),
        }
        if random.random() < 0.5:
            figures = {"p50": usage, "p95": usage, "avg": usage}
            metric["aggregated"] = [{"duration_ms": 300_000, "usage": figures}]
        if random.random() < 0.2:
            metric["report_interval_ms"] = random.choice((0, 10_000, 60_000))
        return {**metric, **fields}


def _requirements(random: Random) -> Payload:
    """Requirements of a pod, most pods having none."""
    if random.random() < 0.85:
        return {}
    zones = {"key": "zone", "operator": random.choice(("In", "NotIn", "Exists")), "values": ["a"]}
    if zones["operator"] == "Exists":
        zones["values"] = []
    ports = {"host_ports": [{"port": random.choice((80, 443))}]}
    match random.randint(0, 9):
        case 0:
            return {"node_selector": {"pool": random.choice(("warm", "cold", "none"))}}
        case 1:
            return {"required_node_affinity": [{"match_expressions": [zones]}]}
        case 2:
            return {"tolerations": [{"operator": "Exists"}]}
        case 3:
            return {"containers": [{"requests": {"cpu": "100m"}, **ports}]}
        case 4:
            return {"unsupported": ["pod affinity"]}
        case 5:
            return {"annotations": {_FACTORS: random.choice(('{"cpu": 20}', "{", '{"cpu": -1}'))}}
        case 6:
            return {"local_storage": True, "volume_claims": [{"name": "data"}]}
        case 7:
            sidecar = {"requests": {"cpu": "100m"}, "restart_policy": "Always"}
            return {
                "init_containers": [sidecar, {"requests": {"cpu": "1"}}],
                "overhead": {"cpu": "10m"},
            }
        case 8:
            return {"containers": [{"requests": {"example.com/gpu": "1"}}]}
    return {"required_node": "n1"}
