"""Objects as Kubernetes writes them."""

from copy import deepcopy
from typing import Any

Object = dict[str, Any]

#: Metadata that every object has and no record needs.
MANAGED: list[Object] = [
    {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-11-20T10:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}},
        },
    }
]

POD: Object = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "web-6d4cf56db6-x2x7z",
        "generateName": "web-6d4cf56db6-",
        "namespace": "shop",
        "uid": "0b8f6f0a-3a3e-4a6b-9a55-6f2c3c1d7e01",
        "resourceVersion": "81234",
        "creationTimestamp": "2026-11-20T10:00:00Z",
        "labels": {"app": "web", "pod-template-hash": "6d4cf56db6"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": '{"apiVersion":"v1"}',
            "scheduling.koordinator.sh/eviction-cost": "7",
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web-6d4cf56db6",
                "uid": "b7c1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": MANAGED,
    },
    "spec": {
        "volumes": [
            {"name": "cache", "emptyDir": {}},
            {"name": "kube-api-access", "projected": {"sources": [], "defaultMode": 420}},
        ],
        "initContainers": [
            {
                "name": "proxy",
                "image": "proxy:1",
                "restartPolicy": "Always",
                "resources": {"requests": {"cpu": "50m"}},
            },
            {"name": "migrate", "image": "web:1", "resources": {"requests": {"cpu": "1"}}},
        ],
        "containers": [
            {
                "name": "web",
                "image": "web:1",
                "ports": [
                    {"containerPort": 8080, "protocol": "TCP"},
                    {"containerPort": 9100, "hostPort": 9100, "protocol": "TCP"},
                ],
                "resources": {
                    "limits": {"cpu": "2", "memory": "1Gi"},
                    "requests": {"cpu": "500m", "memory": "512Mi"},
                },
            }
        ],
        "restartPolicy": "Always",
        "nodeSelector": {"disk": "ssd"},
        "schedulerName": "loadstream",
        "priority": 9500,
        "priorityClassName": "high",
        "overhead": {"cpu": "10m"},
        "tolerations": [
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
        ],
    },
    "status": {"phase": "Pending", "qosClass": "Burstable"},
}

NODE: Object = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {
        "name": "node-1",
        "uid": "n-1",
        "resourceVersion": "7",
        "labels": {"kubernetes.io/hostname": "node-1", "topology.kubernetes.io/zone": "eu-1a"},
        "annotations": {
            "node.alpha.kubernetes.io/ttl": "0",
            "scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds":{"cpu":70}}',
        },
        "managedFields": MANAGED,
    },
    "spec": {
        "podCIDR": "10.0.0.0/24",
        "taints": [
            {
                "key": "node.kubernetes.io/unreachable",
                "effect": "NoExecute",
                "timeAdded": "2026-11-20T10:00:00Z",
            }
        ],
    },
    "status": {
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "capacity": {"cpu": "8", "memory": "33Gi", "pods": "110"},
        "conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T10:00:00Z"}
        ],
    },
}

#: One object of every other kind, by the path of its collection.
OTHERS: dict[str, Object] = {
    "/api/v1/namespaces": {"metadata": {"name": "shop", "labels": {"team": "shop"}}},
    "/api/v1/persistentvolumes": {
        "metadata": {"name": "pv-1", "labels": {"topology.kubernetes.io/zone": "eu-1a"}},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {
                                    "key": "topology.kubernetes.io/zone",
                                    "operator": "In",
                                    "values": ["eu-1a"],
                                }
                            ]
                        }
                    ]
                }
            },
        },
        "status": {"phase": "Bound"},
    },
    "/api/v1/persistentvolumeclaims": {
        "metadata": {"namespace": "shop", "name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "volumeName": "pv-1",
            "resources": {"requests": {"storage": "10Gi"}},
        },
        "status": {"phase": "Bound"},
    },
    "/apis/scheduling.k8s.io/v1/priorityclasses": {
        "metadata": {"name": "high"},
        "value": 9500,
        "globalDefault": False,
    },
    "/apis/policy/v1/poddisruptionbudgets": {
        "metadata": {"namespace": "shop", "name": "web", "generation": 1},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": 1,
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "expectedPods": 3,
        },
    },
    "/apis/apps/v1/replicasets": {
        "metadata": {"namespace": "shop", "name": "web-6d4cf56db6", "uid": "b7c1"},
        "spec": {"replicas": 3},
        "status": {"replicas": 3},
    },
    "/apis/apps/v1/statefulsets": {
        "metadata": {"namespace": "shop", "name": "db", "uid": "d1"},
        "spec": {"replicas": 2},
        "status": {"replicas": 1},
    },
    "/apis/apps/v1/daemonsets": {
        "metadata": {"namespace": "shop", "name": "agent", "uid": "a1"},
        "spec": {},
        "status": {"desiredNumberScheduled": 5},
    },
    "/apis/batch/v1/jobs": {
        "metadata": {"namespace": "shop", "name": "import", "uid": "j1"},
        "spec": {"parallelism": 4, "completions": 8},
        "status": {"active": 4},
    },
}


def changed(document: Object, *changes: tuple[str, Any]) -> Object:
    """Return a copy with values at paths like `spec/nodeName`; None removes a value."""
    copy = deepcopy(document)
    for path, value in changes:
        *folders, last = path.split("/")
        inner = copy
        for folder in folders:
            inner = inner.setdefault(folder, {})
        if value is None:
            inner.pop(last, None)
        else:
            inner[last] = value
    return copy


def pod(name: str, *changes: tuple[str, Any]) -> Object:
    """Return a waiting pod of loadstream."""
    return changed(POD, ("metadata/name", name), ("metadata/uid", f"uid-{name}"), *changes)


def node(name: str, *changes: tuple[str, Any]) -> Object:
    return changed(NODE, ("metadata/name", name), ("metadata/uid", f"uid-{name}"), *changes)
