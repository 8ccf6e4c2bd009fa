"""The machines of a simulated cluster."""

from dataclasses import dataclass

from schemas.messages.nodes import NodeState

#: Cores, GiB of memory, and share of the machines. 90 % of the machines of the OpenB cluster
#: (cluster-trace-gpu-v2023) have these sizes, without GPUs.
SHAPES = ((96, 384, 0.50), (104, 512, 0.25), (32, 128, 0.15), (64, 256, 0.10))
#: The kubelet's default maximum.
PODS_PER_NODE = 110


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    millicores: int
    memory_bytes: int

    @property
    def allocatable(self) -> dict[str, int]:
        return {"cpu": self.millicores, "memory": self.memory_bytes, "pods": PODS_PER_NODE}

    def build_node_state(self, cluster: str, list_id: str | None) -> NodeState:
        """Return the state of the node; without `list_id`, of a node that joins."""
        return NodeState(
            cluster=cluster,
            node=self.name,
            event="added",
            list_id=list_id,
            allocatable={
                "cpu": f"{self.millicores}m",
                "memory": str(self.memory_bytes),
                "pods": str(PODS_PER_NODE),
            },
            labels={"kubernetes.io/hostname": self.name},
        )
