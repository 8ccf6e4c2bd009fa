"""Where an API server is, and who asks it.

A kubeconfig (`--kubeconfig`, or `KUBECONFIG`, or `~/.kube/config`) with one of its contexts; inside
a cluster, without one, the service account of the pod. Credentials change while a process runs:
service account tokens every hour, those of plugins when they say so. `renew` reads them again, and
the session is made anew where certificates may have changed.
"""

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
)

from connectors.kubernetes.api.errors import AccessError

#: Credentials are read again after this time at the latest: tokens of service accounts live longer.
RENEW_S = 60.0

_ADVICE = (
    "name a kubeconfig with --kubeconfig or KUBECONFIG (`kubectl config view` shows what it has); "
    "inside a cluster the pod needs a service account whose token is mounted"
)


class Access:
    """Credentials of one API server, kept fresh."""

    def __init__(self, load: Callable[[Configuration], Awaitable[None]], said: str) -> None:
        """`load` fills a configuration anew each time; `said` names where it comes from."""
        self._load = load
        self.said = said
        self._configuration: Configuration | None = None
        self._loaded_at_s = 0.0

    async def configuration(self, *, renewed: bool = False) -> Configuration:
        """The configuration as it is now; read again if it is old or to be `renewed`.

        Raises:
            AccessError: it cannot be read.
        """
        now_s = time.monotonic()
        found = self._configuration
        if found is None or renewed or now_s - self._loaded_at_s > RENEW_S:
            fresh = Configuration()
            try:
                await self._load(fresh)
            except (ConfigException, OSError, ValueError, TypeError, AssertionError) as error:
                why = str(error) or type(error).__name__
                raise AccessError(f"{self.said}: {why}; {_ADVICE}") from error
            found = self._configuration = fresh
            self._loaded_at_s = now_s
        return found


def access(kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """Access by a kubeconfig, or by the pod's service account if none is named or there.

    Raises:
        AccessError: neither is there.
    """
    named = kubeconfig or _default_kubeconfig()
    if named is None:
        if not os.environ.get(SERVICE_HOST_ENV_NAME):
            raise AccessError(
                f"no kubeconfig was found, and this is no pod of a cluster; {_ADVICE}"
            )
        return Access(_from_service_account, "the pod's service account")

    async def from_kubeconfig(configuration: Configuration) -> None:
        if not named.exists():
            raise ConfigException("there is no such file")
        await load_kube_config(
            str(named), context, client_configuration=configuration, persist_config=False
        )

    return Access(
        from_kubeconfig, f"kubeconfig {named}" + (f", context {context}" if context else "")
    )


def _default_kubeconfig() -> Path | None:
    named = os.environ.get("KUBECONFIG")
    if named:
        # Several may be named; the first that is there wins, as the others only add to it.
        several = [Path(each).expanduser() for each in named.split(os.pathsep) if each]
        return next((each for each in several if each.exists()), several[0] if several else None)
    usual = Path.home() / ".kube" / "config"
    in_pod = os.environ.get(SERVICE_HOST_ENV_NAME) and Path(SERVICE_TOKEN_FILENAME).exists()
    return usual if usual.exists() and not in_pod else None


async def _from_service_account(configuration: Configuration) -> None:
    load_incluster_config(  # type: ignore[no-untyped-call]
        client_configuration=configuration,
        token_filename=SERVICE_TOKEN_FILENAME,
        cert_filename=SERVICE_CERT_FILENAME,
    )
