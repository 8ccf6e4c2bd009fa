"""The chart on a real API server: objects are accepted, and each process has exactly its rights."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from connectors.kubernetes.api.access import access
from connectors.kubernetes.api.server import ApiServer
from simulation.control_plane import cluster
from simulation.control_plane.server import ControlPlane
from simulation.control_plane.users import RIGHTS_TIMEOUT_S, write_kubeconfig
from tests.deploy.helm.chart import NAMESPACE, VALUES, crd, render

_PRODUCTION = VALUES[1]
#: Release whose rights are created. The fixture creates the roles of the release `loadstream`.
_RELEASE = "installed"
_DUTIES = ("watch", "collect", "bind", "evict")
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
#: Longest time until a deleted namespace is gone, or a definition is served.
_GONE_S = 60
_Right = tuple[str, str, str]

#: Rights that each duty needs: (verb, resource.group, namespace).
_NEEDED: dict[str, tuple[_Right, ...]] = {
    "watch": (
        *(
            (verb, resource, "")
            for verb in ("list", "watch")
            for resource in (
                "nodes", "pods", "namespaces", "persistentvolumes", "persistentvolumeclaims",
                "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch",
                "poddisruptionbudgets.policy", "priorityclasses.scheduling.k8s.io",
            )
        ),
    ),
    "collect": (
        ("list", "nodes", ""), ("watch", "pods", ""), ("get", "nodes/metrics", ""),
        ("get", "nodes/proxy", ""), ("list", "nodes.metrics.k8s.io", ""), ("watch", "nodemetrics.slo.koordinator.sh", ""),
    ),
    "bind": (
        ("get", "pods", "shop"), ("get", "nodes", ""), ("create", "pods/binding", "shop"),
        ("patch", "pods/status", "shop"), ("create", "events", "shop"), ("patch", "events", "shop"),
    ),
    "evict": (
        ("get", "pods", "shop"), ("create", "pods/eviction", "shop"), ("delete", "pods", "search"),
        ("patch", "pods", "shop"), ("create", "events", "shop"),
    ),
}  # fmt: skip

#: Rights that no duty has, and rights that only another duty has.
_REFUSED_TO_ALL: tuple[_Right, ...] = (
    ("get", "secrets", NAMESPACE), ("list", "secrets", ""), ("create", "pods", NAMESPACE), ("create", "pods/exec", "shop"),
    ("get", "pods/log", "shop"), ("create", "serviceaccounts/token", NAMESPACE), ("update", "nodes", ""),
    ("patch", "nodes", ""), ("patch", "deployments.apps", NAMESPACE), ("get", "configmaps", NAMESPACE),
    ("escalate", "clusterroles.rbac.authorization.k8s.io", ""), ("impersonate", "users", ""),
    ("deletecollection", "pods", "shop"), ("update", "pods", "shop"),
)  # fmt: skip
_REFUSED: dict[str, tuple[_Right, ...]] = {
    "watch": (
        ("create", "pods/binding", "shop"), ("create", "pods/eviction", "shop"), ("delete", "pods", "shop"),
        ("patch", "pods", "shop"), ("create", "events", "shop"), ("get", "nodes/proxy", ""),
    ),
    "collect": (
        ("create", "pods/binding", "shop"), ("create", "pods/eviction", "shop"), ("delete", "pods", "shop"),
        ("create", "nodes/proxy", ""), ("list", "namespaces", ""), ("get", "nodes/stats", ""),
    ),
    "bind": (
        ("create", "pods/eviction", "shop"), ("delete", "pods", "shop"), ("list", "pods", "shop"),
        ("patch", "pods", "shop"), ("get", "nodes/proxy", ""), ("list", "nodes", ""),
    ),
    "evict": (
        ("create", "pods/binding", "shop"), ("list", "pods", "shop"), ("get", "nodes", ""),
        # It may evict only in the namespaces of the values.
        ("create", "pods/eviction", "default"), ("delete", "pods", NAMESPACE), ("get", "pods", "default"),
    ),
}  # fmt: skip


class Installation:
    """The API server, used by its administrator."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self._resources: dict[str, dict[str, tuple[str, bool]]] = {}

    async def apply(self, document: dict[str, Any], *, dry: bool) -> tuple[int, bytes]:
        """Apply an object, or let the API server only check it; returns status and answer."""
        query = {"fieldManager": "test", "fieldValidation": "Strict", "force": "true"}
        path = f"{await self._collection(document)}/{document['metadata']['name']}"
        answer = await self.server.send(
            "PATCH", path, query={**query, "dryRun": "All"} if dry else query, body=document,
            content_type="application/apply-patch+yaml",
        )  # fmt: skip
        return answer.status, answer.body

    async def delete(self, document: dict[str, Any]) -> None:
        await self.server.send(
            "DELETE", f"{await self._collection(document)}/{document['metadata']['name']}"
        )

    async def _collection(self, document: dict[str, Any]) -> str:
        version = document["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if document["kind"] not in self._resources.get(version, {}):
            resources = await self.server.get(root)
            self._resources[version] = {
                resource["kind"]: (resource["name"], resource["namespaced"])
                for resource in reversed(resources["resources"])
                if "/" not in resource["name"]
            }
        name, namespaced = self._resources[version][document["kind"]]
        return (
            f"{root}/namespaces/{document['metadata']['namespace']}/{name}"
            if namespaced
            else f"{root}/{name}"
        )


@pytest.fixture
async def installation(control_plane: ControlPlane) -> AsyncIterator[Installation]:
    """A cluster with the namespaces that the values name."""
    async with control_plane.api() as server:
        names = (NAMESPACE, "shop", "search")
        for name in names:
            await cluster.create_namespace(server, name)
        yield Installation(server)
        for name in names:
            await cluster.delete_namespace(server, name)
        async with asyncio.timeout(_GONE_S):
            for name in names:
                while (await server.send("GET", f"/api/v1/namespaces/{name}")).ok:
                    await asyncio.sleep(0.1)


@pytest.mark.control_plane
async def test_a_real_api_server_accepts_every_object(installation: Installation) -> None:
    definitions = [crd("podmonitors"), crd("prometheusrules")]
    try:
        for definition in definitions:
            status, body = await installation.apply(definition, dry=False)
            assert status in (200, 201), body
        for definition in definitions:
            await _wait_until_served(installation.server, definition)
        for values in VALUES:
            for document in render(values):
                status, body = await installation.apply(document, dry=True)
                assert status in (200, 201), (values.name, document["metadata"]["name"], body)
        mistyped = {**render(_PRODUCTION)[0], "specs": {}}
        status, body = await installation.apply(mistyped, dry=True)
        assert status >= 400
        assert b"specs" in body
    finally:
        for definition in definitions:
            await installation.delete(definition)


async def _wait_until_served(server: ApiServer, definition: dict[str, Any]) -> None:
    name, group = definition["spec"]["names"]["plural"], definition["spec"]["group"]
    async with asyncio.timeout(_GONE_S):
        while not (await server.send("GET", f"/apis/{group}/v1/namespaces/{NAMESPACE}/{name}")).ok:
            await asyncio.sleep(0.1)


@pytest.mark.control_plane
async def test_the_token_of_each_process_has_only_the_needed_rights(
    installation: Installation, control_plane: ControlPlane, tmp_path: Path
) -> None:
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "RoleBinding")
    rights = [right for right in render(_PRODUCTION, release=_RELEASE) if right["kind"] in kinds]
    try:
        for document in rights:
            status, body = await installation.apply(document, dry=False)
            assert status in (200, 201), body
        for duty in _DUTIES:
            token = await make_token(installation.server, f"{_RELEASE}-{duty}")
            kubeconfig = tmp_path / duty
            write_kubeconfig(kubeconfig, control_plane.url, control_plane.certificate, token)
            async with ApiServer(access(kubeconfig)) as server:
                async with asyncio.timeout(RIGHTS_TIMEOUT_S):
                    while await _allowed(server, _NEEDED[duty]) != set(_NEEDED[duty]):
                        await asyncio.sleep(0.1)
                refused = {*_REFUSED_TO_ALL, *_REFUSED[duty]} - set(_NEEDED[duty])
                assert await _allowed(server, refused) == set(), duty
    finally:
        for document in rights:
            await installation.delete(document)


async def make_token(server: ApiServer, account: str) -> str:
    """Return a token of a service account of the chart, valid for an hour."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    answer = await server.send("POST", path, body={"spec": {"expirationSeconds": 3600}})
    assert answer.ok, answer.body
    return str(answer.json()["status"]["token"])


async def _allowed(server: ApiServer, rights: Iterable[_Right]) -> set[_Right]:
    """Return the rights that the user has according to the API server."""

    async def ask(right: _Right) -> bool:
        verb, name, namespace = right
        name, _, group = name.partition(".")
        resource, _, subresource = name.partition("/")
        query = {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace,
        }  # fmt: skip
        answer = await server.send("POST", _REVIEWS, body={"spec": {"resourceAttributes": query}})
        assert answer.ok, answer.body
        return bool(answer.json()["status"]["allowed"])

    ordered = list(rights)
    answers = await asyncio.gather(*(ask(right) for right in ordered))
    return {right for right, allowed in zip(ordered, answers, strict=True) if allowed}
