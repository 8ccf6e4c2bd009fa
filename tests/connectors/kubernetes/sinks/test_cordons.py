"""Cordons on a real API server with the rights of the evictor."""

from typing import Any

from connectors.kubernetes.sinks.cordons import CORDON_ANNOTATION, apply_drain
from schemas.messages.decisions import AsOf
from schemas.messages.migrations import DrainStatus
from simulation.control_plane.server import ControlPlane
from tests.connectors.kubernetes.sinks.real import Environment
from tests.connectors.ports.sink_contract import CLUSTER, NOW_MS


def drain(node: str, phase: Any, *, dry_run: bool = False) -> DrainStatus:
    return DrainStatus(
        cluster=CLUSTER, node=node, phase=phase, pods_left=0, pods_protected=0, dry_run=dry_run,
        request_id="request-1", happened_at_ms=NOW_MS, as_of=AsOf(partition=0, offsets={}, policy_digest="default"),
    )  # fmt: skip


async def test_the_end_of_a_drain_uncordons_only_nodes_that_it_cordoned(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with control_plane.api() as admin, control_plane.api("loadstream-evict") as server:
        env = await Environment(admin, namespace).prepared()
        path = f"/api/v1/nodes/{env.node}"

        async def state() -> tuple[bool, str | None]:
            node = await admin.get(path)
            annotation = (node["metadata"].get("annotations") or {}).get(CORDON_ANNOTATION)
            return node["spec"].get("unschedulable", False), annotation

        async def close(body: dict[str, Any]) -> None:
            kind = "application/merge-patch+json"
            response = await admin.send("PATCH", path, body={"spec": body}, content_type=kind)
            assert response.ok

        await apply_drain(server, drain(env.node, "Draining", dry_run=True))
        assert await state() == (False, None)
        for _ in range(2):
            await apply_drain(server, drain(env.node, "Draining"))
            assert await state() == (True, "request-1")
        await apply_drain(server, drain(env.node, "Undrained"))
        assert await state() == (False, None)
        await close({"unschedulable": True})
        for phase in ("Draining", "Drained", "Undrained"):
            await apply_drain(server, drain(env.node, phase))
            assert await state() == (True, None)
        await apply_drain(server, drain("node-that-is-gone", "Undrained"))
