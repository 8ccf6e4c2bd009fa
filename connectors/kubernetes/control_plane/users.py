"""Users of a control plane: a token each, a kubeconfig each, and rights.

The administrator and the parts themselves may do everything. Each duty of ours has a user of its
name with the rights of `connectors/kubernetes/rights.yaml`, so what one may not do fails here as it
would in a cluster; and the audit log tells them apart.
"""

import csv
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import yaml

from connectors.kubernetes.api.server import ApiServer

ADMIN = "admin"
KWOK = "kwok"
CONTROLLERS = "kube-controller-manager"
#: One user for each duty; also the name of its role.
DUTIES = ("loadstream-watch", "loadstream-collect", "loadstream-bind", "loadstream-evict")
_ALL_RIGHTS = "system:masters"
_RIGHTS = Path(__file__).parents[1] / "rights.yaml"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_CONFLICT = 409


def write_tokens(path: Path) -> dict[str, str]:
    """Write the API server's file of tokens; returns the token of each user."""
    tokens = {name: secrets.token_hex(16) for name in (ADMIN, KWOK, CONTROLLERS, *DUTIES)}
    path.touch(mode=0o600)
    with path.open("w", newline="") as lines:
        for name, token in tokens.items():
            group = "" if name in DUTIES else _ALL_RIGHTS
            csv.writer(lines).writerow([token, name, name, group])
    return tokens


def write_kubeconfig(path: Path, url: str, certificate: Path, token: str) -> None:
    """Write a kubeconfig of one context.

    Args:
        path: of the kubeconfig.
        url: of the API server.
        certificate: of the authority that signed the server's own; absolute, since a relative path
            would be taken from the kubeconfig's directory.
        token: of the user.
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
    """Make the roles of all duties, and bind each to its user; `server` is the administrator's.

    What is there already stays. Raises ApiError and ApiUnreachable.
    """
    for path, document in _roles():
        answer = await server.send("POST", path, body=document)
        if not answer.ok and answer.status != _CONFLICT:
            raise answer.error()


def _roles() -> Iterator[tuple[str, dict[str, Any]]]:
    for role in yaml.safe_load_all(_RIGHTS.read_text(encoding="utf-8")):
        name = role["metadata"]["name"]
        yield f"{_RBAC}/clusterroles", role
        group = "rbac.authorization.k8s.io"
        yield (
            f"{_RBAC}/clusterrolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
            },
        )
