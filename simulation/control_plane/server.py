"""A whole control plane on this machine: etcd, API server, controllers, kwok.

`ControlPlane` starts the parts in order on free ports, creates users and rights, and stops the parts.
Each part can be stopped, killed and restarted, with its port and data: for an outage of the API server,
call `api_server.stop()`, and later `api_server.start()`. Every process has a guard that kills it when
the parent process is gone.

Data stays in the given directory, so a control plane that is started there again has the old objects. The
control plane is for short runs: etcd does not wait for its disk, and nothing is replicated.

Starting and stopping block; inside an event loop use `asyncio.to_thread`.
"""

import asyncio
import subprocess
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson

from connectors.kubernetes.api.access import access
from connectors.kubernetes.api.server import ApiServer
from connectors.process.child_process import Startable
from connectors.process.local_ports import HOST, find_free_port, find_own_address
from simulation.control_plane.build import ControlPlaneUnavailable
from simulation.control_plane.process import Health, Part
from simulation.control_plane.users import (
    ADMIN,
    CONTROLLERS,
    KWOK,
    grant_rights,
    write_kubeconfig,
    write_tokens,
)

_CONFIGURATION = Path(__file__).parent / "configuration"

#: Controllers of budgets, owners, replicas and namespaces that work without real kubelets.
ENABLED_CONTROLLERS = (
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "replicaset-controller",
    "statefulset-controller",
)
#: kwok does not renew leases of nodes, which would take most of the API server's CPU. So the controller
#: that declares nodes dead waits longer than any run.
_NODE_GRACE_PERIOD = "24h"
_STORE_TIMEOUT_S = 30.0
#: Size limit of etcd's store: 5,000 nodes and 150,000 pods take less than 2 GiB.
_STORE_BYTES = 4 * 1024**3
#: Large enough that the audit log stays one file.
_AUDIT_FILE_MB = 1_000_000
#: Requests per second of the controllers, high enough that no test waits for them.
_CONTROLLER_QPS = 500


@dataclass
class ControlPlane(Startable):
    """All parts, with their files in `directory`; a context manager."""

    binary: Path
    """The program, as `build` returns it."""
    directory: Path
    etcd: Part = field(init=False)
    api_server: Part = field(init=False)
    controllers: Part = field(init=False)
    kwok: Part = field(init=False)
    # An API server does not forward requests to a loopback address.
    _kubelet_host: str = field(default_factory=find_own_address, init=False)
    _tokens: dict[str, str] = field(default_factory=dict, init=False)
    _ports: dict[str, int] = field(default_factory=dict, init=False)

    def start(self) -> Self:
        """Start all parts, grant rights, and block until all parts are ready.

        Raises ControlPlaneUnavailable with the log of a part that does not start.
        """
        self._prepare()
        try:
            self.etcd.start()
            self.api_server.start()
            asyncio.run(self._grant_rights())
            self.controllers.start()
            self.kwok.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all parts, the store last, and block until they have ended."""
        for part in (self.kwok, self.controllers, self.api_server, self.etcd):
            part.stop()

    def compact(self) -> None:
        """Compact the store, as the API server does every 5 minutes.

        Until a restart, the API server still serves older versions from memory.
        """
        newest = self._call_store("range", {"key": "AA=="})["header"]["revision"]
        self._call_store("compaction", {"revision": newest, "physical": True})

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.etcd, self.api_server, self.controllers, self.kwok

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self._ports['api']}"

    @property
    def kwok_url(self) -> str:
        """The address of kwok, with metrics of a node at `/metrics/nodes/{node}/metrics/resource`.

        The API server forwards `/api/v1/nodes/{node}/proxy` to kwok. The first answer for a node has zeros.
        """
        return f"http://{self._kubelet_host}:{self._ports['kwok']}"

    @property
    def certificate(self) -> Path:
        """The certificate of the API server and of the authority that signed it."""
        return self._build_path("certificates/apiserver.crt")

    @property
    def audit_log(self) -> Path:
        return self._build_path("audit.log")

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """Return a kubeconfig of the administrator or of one of `users.DUTIES`."""
        return self._build_path(f"{user}.kubeconfig")

    def api(self, user: str = ADMIN) -> ApiServer:
        """Return a client of this user; the caller must close it."""
        return ApiServer(access(self.kubeconfig(user)))

    def _prepare(self) -> None:
        """Choose ports, and write the files that the parts read."""
        self._ports = {name: find_free_port() for name in ("etcd", "peer", "api", "kwok")}
        self.directory.mkdir(parents=True, exist_ok=True)
        self._tokens = write_tokens(self._build_path("tokens.csv"))
        for user, token in self._tokens.items():
            write_kubeconfig(self.kubeconfig(user), self.url, self.certificate, token)
        self._write_signing_key()
        ready = Health(f"{self.url}/readyz", self._tokens[ADMIN], self.certificate)
        self.etcd = self._make_part(
            "etcd", self._etcd_flags(), Health(f"http://{HOST}:{self._ports['etcd']}/health")
        )
        self.api_server = self._make_part("kube-apiserver", self._api_server_flags(), ready)
        self.controllers = self._make_part(
            "kube-controller-manager", self._controller_flags(), None
        )
        self.kwok = self._make_part("kwok", self._kwok_flags(), Health(f"{self.kwok_url}/healthz"))

    def _make_part(self, name: str, flags: dict[str, object], health: Health | None) -> Part:
        directory = self._build_path(name)
        directory.mkdir(exist_ok=True)
        arguments = tuple(f"--{flag}={value}" for flag, value in flags.items())
        return Part(directory, self.binary, name, arguments, health)

    def _call_store(self, operation: str, body: dict[str, object]) -> Any:
        url = f"http://{HOST}:{self._ports['etcd']}/v3/kv/{operation}"
        with urllib.request.urlopen(url, orjson.dumps(body), timeout=_STORE_TIMEOUT_S) as answer:
            return orjson.loads(answer.read())

    def _build_path(self, name: str) -> Path:
        return self.directory.absolute() / name

    def _write_signing_key(self) -> None:
        key = self._build_path("signing.key")
        if key.exists():
            return
        result = subprocess.run(  # noqa: S603 - made of our own paths
            [str(self.binary), "signing-key"], capture_output=True, check=False
        )
        if result.returncode != 0:
            output = result.stderr.decode(errors="replace").strip()
            raise ControlPlaneUnavailable(f"{self.binary} made no signing key: {output}")
        key.touch(mode=0o600)
        key.write_bytes(result.stdout)

    async def _grant_rights(self) -> None:
        async with self.api() as server:
            await grant_rights(server)

    def _etcd_flags(self) -> dict[str, object]:
        clients = f"http://{HOST}:{self._ports['etcd']}"
        peers = f"http://{HOST}:{self._ports['peer']}"
        return {
            "data-dir": self._build_path("store"),
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "quota-backend-bytes": _STORE_BYTES,
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        }

    def _api_server_flags(self) -> dict[str, object]:
        key = self._build_path("signing.key")
        return {
            "etcd-servers": f"http://{HOST}:{self._ports['etcd']}",
            "bind-address": HOST,
            "secure-port": self._ports["api"],
            # The API server creates its certificates once.
            "cert-dir": self.certificate.parent,
            "token-auth-file": self._build_path("tokens.csv"),
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-cluster-ip-range": "10.0.0.0/24",
            # Pods would wait for service accounts, which no controller creates here.
            "disable-admission-plugins": "ServiceAccount",
            # The API server reaches kwok at this address instead of the nodes' kubelets.
            "kubelet-preferred-address-types": "InternalIP",
            "profiling": "false",
            # By default, the API server waits a minute for watching clients.
            "shutdown-watch-termination-grace-period": "1s",
            "audit-policy-file": _CONFIGURATION / "audit.yaml",
            "audit-log-path": self.audit_log,
            "audit-log-maxsize": _AUDIT_FILE_MB,
            # A crash would lose batches, so each request waits for its line.
            "audit-log-mode": "blocking",
        }

    def _controller_flags(self) -> dict[str, object]:
        return {
            "kubeconfig": self.kubeconfig(CONTROLLERS),
            "controllers": ",".join(ENABLED_CONTROLLERS),
            "leader-elect": "false",
            "secure-port": 0,
            "kube-api-qps": _CONTROLLER_QPS,
            "kube-api-burst": _CONTROLLER_QPS,
            "node-monitor-grace-period": _NODE_GRACE_PERIOD,
        }

    def _kwok_flags(self) -> dict[str, object]:
        return {
            "kubeconfig": self.kubeconfig(KWOK),
            "config": _CONFIGURATION / "kwok.yaml",
            "manage-all-nodes": "true",
            "node-ip": self._kubelet_host,
            "node-port": self._ports["kwok"],
            "server-address": f"{self._kubelet_host}:{self._ports['kwok']}",
            "node-lease-duration-seconds": 0,
        }
