"""Users of a control plane, each with a token, a kubeconfig and rights.

The administrator and the parts have all rights. Each duty of loadstream has a user with the rights of
`connectors/kubernetes/rights.yaml`. So a missing right causes the same errors as in a real cluster, and
the audit log shows which duty sent a request.
"""

import asyncio
import csv
import secrets
import time
from pathlib import Path
from typing import Any

import orjson
import yaml

import connectors.kubernetes
from connectors.kubernetes.api.server import ApiServer
from simulation.control_plane.build import ControlPlaneUnavailable

ADMIN = "admin"
KWOK = "kwok"
CONTROLLERS = "kube-controller-manager"
#: One user for each duty; the role has the same name.
DUTIES = ("loadstream-watch", "loadstream-collect", "loadstream-bind", "loadstream-evict")
_ADMIN_GROUP = "system:masters"
_RIGHTS = Path(connectors.kubernetes.__file__).parent / "rights.yaml"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_CONFLICT = 409
_POLL_S = 0.05
#: Longest time until an API server applies new rights; it usually takes a second.
RIGHTS_TIMEOUT_S = 60.0


def write_tokens(path: Path) -> dict[str, str]:
    """Write the API server's file of tokens; return the token of each user."""
    tokens = {name: secrets.token_hex(16) for name in (ADMIN, KWOK, CONTROLLERS, *DUTIES)}
    path.touch(mode=0o600)
    with path.open("w", newline="") as lines:
        for name, token in tokens.items():
            group = "" if name in DUTIES else _ADMIN_GROUP
            csv.writer(lines).writerow([token, name, name, group])
    return tokens


def write_kubeconfig(path: Path, url: str, certificate: Path, token: str) -> None:
    """Write a kubeconfig with one context.

    `certificate` is that of the authority that signed the server's certificate.
    """
    name = "control-plane"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": url, "certificate-authority": str(certificate.absolute())},
            }
        ],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    path.touch(mode=0o600)
    # JSON is YAML.
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))


async def grant_rights(server: ApiServer) -> None:
    """Create the roles of all duties, and bind them to users; `server` is the administrator's client.

    Existing roles stay. Waits until the API server applies the rights.

    Raises ApiError, ApiUnreachable, and ControlPlaneUnavailable if the server does not apply the rights
    within `RIGHTS_TIMEOUT_S`.
    """
    roles = list(yaml.safe_load_all(_RIGHTS.read_text(encoding="utf-8")))
    for role in roles:
        name = role["metadata"]["name"]
        for kind, document in (
            ("clusterroles", role),
            ("clusterrolebindings", _make_role_binding(name)),
        ):
            answer = await server.send("POST", f"{_RBAC}/{kind}", body=document)
            if not answer.ok and answer.status != _CONFLICT:
                raise answer.error()
    until_s = time.monotonic() + RIGHTS_TIMEOUT_S
    for role in roles:
        user, rule = role["metadata"]["name"], role["rules"][0]
        while not await _is_allowed(server, user, rule):
            if time.monotonic() > until_s:
                raise ControlPlaneUnavailable(
                    f"the API server did not apply the right of user {user} to {rule['verbs'][0]} "
                    f"{rule['resources'][0]} within {RIGHTS_TIMEOUT_S:g} s: see the server's log"
                )
            await asyncio.sleep(_POLL_S)


def _make_role_binding(name: str) -> dict[str, Any]:
    """Return a document that gives a user the role of the same name."""
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
    }


async def _is_allowed(server: ApiServer, user: str, rule: dict[str, Any]) -> bool:
    resource, _, subresource = rule["resources"][0].partition("/")
    attributes = {
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
    }
    spec = {"user": user, "resourceAttributes": attributes}
    answer = await server.send("POST", _REVIEWS, body={"spec": spec})
    if not answer.ok:
        raise answer.error()
    return bool(answer.json()["status"]["allowed"])
