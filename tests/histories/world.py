"""One simulated Kubernetes cluster: nodes, owners and pods, and what nodes use.

The world is what really exists. Each change is also put into `reports`, the records that a perfect
watch would write; `outside.Watch` delivers them. Amounts are few and small, so that nodes fill up.
Payloads are JSON values as producers write them.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

import orjson

from schemas.base.quantities import parse_amounts
from schemas.messages.pods import Pod
from streams.pods.kind import compute_demand
from tests.histories.log import find_name

Payload = dict[str, Any]

START_MS = 1_790_000_000_000
GIB = 1024**3

_OWNER_KINDS = (*["ReplicaSet"] * 8, "StatefulSet", "StatefulSet", "DaemonSet", "Job")
_CPU = ("0", "100m", "250m", "500m", "1", "1500m", "2")
_MEMORY = ("0", "64Mi", "500M", "1Gi", "1e9", "2Gi")
_NAMESPACES = ("default", "default", "shop", "kube-system")
_APPS = ("web", "db", "batch")
_THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
_RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"
_FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
_NODE_ANNOTATIONS: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {_THRESHOLDS: '{"usageThresholds": {"cpu": 30}}'},
    {_THRESHOLDS: '{"usageThresholds": {"cpu": "x"'},
    {_RAW_ALLOCATABLE: '{"cpu": "2", "memory": "4Gi"}'},
    {_RAW_ALLOCATABLE: "{}"},
)


def draw_cluster_name(random: Random) -> str:
    """Return a cluster name, sometimes a strange one, that hashes to the partition."""
    return find_name(random.choice(("c", "west", "größe", 'qu"ote\\', "x" * 240, "\u202ename")))


class World:
    """One cluster."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.now_ms = START_MS
        self.policy = ""
        self.nodes: dict[str, Payload] = {}
        self.pods: dict[str, Payload] = {}
        """By uid; a pod on a node has the key `node`."""
        self.owners: dict[str, Payload] = {}
        self.waiting_pods: dict[str, Payload] = {}
        """Pods without a node that wait for a decision."""
        self.hot: set[str] = set()
        """Nodes on which every pod uses a lot."""
        self.reports: list[tuple[str, bytes]] = []
        """Topic and value of the records that the watch has not delivered."""
        self._created = 0

    def report(self, topic: str, payload: Payload) -> None:
        self.reports.append((topic, orjson.dumps(payload)))

    def head(self, **fields: Any) -> Payload:
        """Return the fields that all messages of the cluster have, and the given ones."""
        return {"schema_version": 1, "cluster": self.cluster, **fields}

    def pods_on(self, node: str) -> list[Payload]:
        return [pod for pod in self.pods.values() if pod.get("node") == node]

    def bound_pods(self) -> list[Payload]:
        return [pod for pod in self.pods.values() if pod.get("node") is not None]

    def _next_number(self) -> int:
        self._created += 1
        return self._created

    # --- nodes ------------------------------------------------------------------------------------

    def add_node(self, random: Random) -> None:
        prefix = f"n{self._next_number()}-" if random.random() < 0.95 else f'n"{self._created}\\ü'
        name = find_name(f"{self.cluster}/{prefix}").removeprefix(f"{self.cluster}/")
        self.nodes[name] = {"node": name, **draw_node(random)}
        self.report("node-state", self.describe_node(name, event="added"))

    def change_node(self, random: Random, name: str) -> None:
        self.nodes[name] |= draw_node(random)
        self.report("node-state", self.describe_node(name))

    def remove_node(self, random: Random, name: str) -> None:
        """Remove a node; the pods on it are deleted, and their owners replace them."""
        state = self.describe_node(name, event="removed")
        del self.nodes[name]
        self.hot.discard(name)
        self.report("node-state", state)
        for pod in self.pods_on(name):
            self.end_pod(pod["uid"], "deleted")
            self.replace_pod(random, pod)

    def describe_node(self, name: str, **fields: Any) -> Payload:
        return self.head(kind="node", event="changed") | self.nodes[name] | fields

    # --- pods -------------------------------------------------------------------------------------

    def add_owner(self, random: Random) -> Payload:
        owner = {
            "uid": f"owner-{self._next_number()}",
            "owner_kind": random.choice(_OWNER_KINDS),
            "namespace": random.choice(_NAMESPACES),
            "name": random.choice(_APPS),
            "replicas": random.choice((1, 3, 8, 12, 20)),
        }
        self.owners[str(owner["uid"])] = owner
        return owner

    def create_pod(self, random: Random) -> Payload:
        """Create a pod without a node; nothing is reported yet."""
        number = self._next_number()
        uid = f"pod-{number}" if random.random() < 0.95 else f'pod/{number}/"'
        requests = {"cpu": random.choice(_CPU), "memory": random.choice(_MEMORY)}
        container: Payload = {"requests": requests}
        if random.random() < 0.7:
            container["limits"] = dict(requests)
        pod: Payload = {
            "namespace": "default",
            "name": f"p{number}",
            "uid": uid,
            "scheduler": random.choice(("koord-scheduler", "koord-scheduler", "default-scheduler")),
            "containers": [container],
            "phase": "Pending",
            "priority": random.choice((*[None] * 4, *[0] * 8, 5_500, 9_500, 2_000_000_000)),
            "created_at_ms": self.now_ms,
        }
        if self.owners and random.random() < 0.9:
            owner = random.choice(list(self.owners.values()))
            self.give_owner(random, pod, owner)
            pod["namespace"] = owner["namespace"]
        pod |= _draw_requirements(random)
        self.pods[uid] = pod
        return pod

    def give_owner(self, random: Random, pod: Payload, owner: Payload) -> None:
        reference = {"kind": owner["owner_kind"], "name": owner["name"], "uid": owner["uid"]}
        pod["owners"] = [{**reference, "controller": random.random() < 0.95}]
        pod["labels"] = {"app": owner["name"]}

    def replace_pod(self, random: Random, pod: Payload) -> None:
        """Let the owner of a deleted pod create another one, which asks for a node."""
        new = self.create_pod(random)
        for name in ("namespace", "owners", "labels", "containers", "scheduler"):
            if name in pod:
                new[name] = pod[name]
        self.ask(new)

    def ask(self, pod: Payload) -> None:
        self.waiting_pods[pod["uid"]] = pod
        self.report("scheduling-requests", self.describe_request(pod))

    def withdraw(self, uid: str) -> None:
        """Withdraw a request: from now on another scheduler takes care of the pod."""
        pod = self.waiting_pods.pop(uid)
        del self.pods[uid]
        self.report("scheduling-requests", self.describe_request(pod, withdrawn=True))

    def start_pod(self, random: Random, pod: Payload, node: str, event: str) -> None:
        """Let a pod run on a node."""
        self.waiting_pods.pop(pod["uid"], None)
        pod |= {"node": node, "phase": "Running", "ready": random.random() < 0.9}
        pod["scheduled_at_ms"] = self.now_ms
        self.report("pod-lifecycle", self.describe_pod(pod, event))

    def end_pod(self, uid: str, event: str) -> None:
        pod = self.pods.pop(uid)
        self.waiting_pods.pop(uid, None)
        self.report("pod-lifecycle", self.describe_pod(pod, event))

    def has_room(self, pod: Payload, node: str) -> bool:
        """Tell whether the kubelet of the node admits the pod."""
        allocatable = parse_amounts(self.nodes[node]["allocatable"])
        requests = [_read_requests(requested) for requested in (*self.pods_on(node), pod)]
        used = {"pods": len(requests)}
        for resource, amount in requests[-1].items():
            if amount:
                used[resource] = sum(requested.get(resource, 0) for requested in requests)
        return all(amount <= allocatable.get(name, 0) for name, amount in used.items())

    def describe_pod(self, pod: Payload, event: str, **fields: Any) -> Payload:
        return self.head(kind="pod", event=event, pod=dict(pod), **fields)

    def describe_request(self, pod: Payload, **fields: Any) -> Payload:
        return self.head(pod=dict(pod), requested_at_ms=self.now_ms, **fields)

    # --- what else the watch reports ----------------------------------------------------------------

    def describe_owner(self, owner: Payload, **fields: Any) -> Payload:
        return self.head(kind="workload", **owner, **fields)

    def draw_budget(self, random: Random) -> Payload:
        app = random.choice(_APPS)
        return self.head(
            kind="disruption-budget",
            namespace=random.choice(_NAMESPACES),
            name=app,
            selector=random.choice((*[{"match_labels": {"app": app}}] * 6, {}, None)),
            disruptions_allowed=random.choice((0, 1, 3, 10)),
            current_healthy=3,
            desired_healthy=2,
            expected_pods=3,
        )

    def draw_namespace(self, random: Random) -> Payload:
        labels = random.choice(({}, {"team": "shop"}, {"team": "shop", "evict": "no"}))
        return self.head(kind="namespace", name=random.choice(_NAMESPACES), labels=labels)

    def draw_priority_class(self, random: Random) -> Payload:
        return self.head(
            kind="priority-class",
            name=random.choice(("high", "system-cluster-critical")),
            value=random.choice((0, 5_500, 10_000, -(2**31), 2**31 - 1)),
        )

    # --- usage ------------------------------------------------------------------------------------

    def draw_sample(self, random: Random, node: str) -> Payload:
        """Return a usage sample of a node, as its agent measures it now."""
        per_pod = random.choice((900, 1_800) if node in self.hot else (10, 50, 200))
        pods = [
            {name: pod[name] for name in ("namespace", "name", "uid")}
            | {"usage": {"cpu": per_pod, "memory": GIB // 8}}
            | {"priority_class": "koord-prod" if (pod["priority"] or 0) >= 9_000 else ""}
            for pod in self.pods_on(node)
        ]
        cpu = (6_000 if node in self.hot else 50) + per_pod * len(pods)
        usage = {"cpu": cpu, "memory": GIB // 4 + len(pods) * GIB // 8}
        sample = self.head(node=node, sampled_at_ms=self.now_ms, usage=usage, pods=pods)
        if random.random() < 0.1:
            sample["usage"]["example.com/gpu"] = random.choice((0, 1, 2**40, 2**50))
        if random.random() < 0.1:
            sample["memory"] = {"usage_with_page_cache_bytes": random.choice((0, 2**30, 2**50))}
        if random.random() < 0.1:
            shares = {f"avg{seconds}_bp": random.randint(0, 10_000) for seconds in (10, 60, 300)}
            sample["pressure"] = {random.choice(("cpu", "memory", "io")): {"some": shares}}
        if random.random() < 0.1:
            sample["pool"] = random.choice(("slow", "none"))
        if random.random() < 0.1:
            sample["system_usage"] = {"cpu": 100}
            sample["host_applications"] = [{"name": "agent", "usage": {"cpu": 10}}]
        return sample

    def draw_metric(self, random: Random, node: str) -> Payload:
        """Return a metric of a node that another system has aggregated."""
        sample = self.draw_sample(random, node)
        age_ms = random.choice((0, 0, 0, 0, 0, 1_000, 59_000, 200_000))
        metric = self.head(
            node=node,
            updated_at_ms=self.now_ms - age_ms,
            usage=sample["usage"],
            system_usage={"cpu": 100},
            pods=[{k: v for k, v in pod.items() if k != "uid"} for pod in sample["pods"]],
            samples=random.randint(0, 30),
        )
        if random.random() < 0.5:
            figures = dict.fromkeys(("p50", "p95", "avg"), sample["usage"])
            metric["aggregated"] = [{"duration_ms": 300_000, "usage": figures}]
        if random.random() < 0.2:
            metric["report_interval_ms"] = random.choice((0, 10_000, 60_000))
        return metric


def _read_requests(pod: Payload) -> Mapping[str, int]:
    return compute_demand(Pod.model_validate_json(orjson.dumps(pod))).requests


def draw_node(random: Random) -> Payload:
    """Return the properties of a node that may change."""
    allocatable = {
        "cpu": random.choice(("8", "16", "16", "16", "32", "1500m")),
        "memory": random.choice(("8Gi", "32Gi", "64Gi")),
        "pods": random.choice((*["110"] * 16, "5", "1", "0")),
    }
    if random.random() < 0.2:
        allocatable["example.com/gpu"] = "2"
    effect = random.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
    taint = {"key": "dedicated", "value": "batch", "effect": effect}
    return {
        "allocatable": allocatable,
        "labels": {"pool": random.choice(("warm", "cold")), "zone": random.choice("ab")},
        "annotations": dict(random.choice(_NODE_ANNOTATIONS)),
        "taints": [taint] if random.random() < 0.15 else [],
        "unschedulable": random.random() < 0.1,
    }


def _draw_requirements(random: Random) -> Payload:
    """Return requirements of a pod; most pods have none."""
    if random.random() < 0.85:
        return {}
    operator = random.choice(("In", "NotIn", "Exists"))
    zones = {"key": "zone", "operator": operator, "values": [] if operator == "Exists" else ["a"]}
    sidecar = {"requests": {"cpu": "100m"}, "restart_policy": "Always"}
    ports = [{"port": random.choice((80, 443))}]
    choices: tuple[Payload, ...] = (
        {"node_selector": {"pool": random.choice(("warm", "cold", "none"))}},
        {"required_node_affinity": [{"match_expressions": [zones]}]},
        {"tolerations": [{"operator": "Exists"}]},
        {"containers": [{"requests": {"cpu": "100m"}, "host_ports": ports}]},
        {"unsupported": ["pod affinity"]},
        {"annotations": {_FACTORS: random.choice(('{"cpu": 20}', "{", '{"cpu": -1}'))}},
        {"local_storage": True, "volume_claims": [{"name": "data"}]},
        {"init_containers": [sidecar, {"requests": {"cpu": "1"}}], "overhead": {"cpu": "10m"}},
        {"containers": [{"requests": {"example.com/gpu": "1"}}]},
        {"required_node": "n1"},
    )
    return random.choice(choices)
