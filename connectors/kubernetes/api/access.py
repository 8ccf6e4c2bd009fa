"""Where an API server is, and who asks it.

A kubeconfig (`--kubeconfig`, or `KUBECONFIG`, or `~/.kube/config`) with one of its contexts; inside
a cluster, without one, the service account of the pod. `KUBECONFIG` may name several files, which
are merged as kubectl does it: what is in the first of them counts. Credentials change while a
process runs: service account tokens every hour, those of plugins when they say so. A configuration
that is asked for as `renewed` reads them again, and the session is made anew where certificates may
have changed.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from connectors.kubernetes.api import plugin
from connectors.kubernetes.api.client_parts import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    ConfigException,
    Configuration,
    forget_lost_files,
    load_incluster_config,
    load_kube_config,
    remove_file,
)
from connectors.kubernetes.api.errors import AccessError

#: Credentials are read again after this time at the latest: tokens of service accounts live longer.
RENEW_S = 60.0
#: Time that reading them may take, in seconds: a plugin may hang, and all requests wait for it.
READ_S = 30.0

#: What reading credentials raises. A file that is being written at the moment may be any text.
_UNREADABLE = (
    ConfigException, OSError, ValueError, TypeError, AttributeError, AssertionError, yaml.YAMLError,
)  # fmt: skip
_EXPECTED = "expected a map with clusters, contexts and users"
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
        self._reading: asyncio.Task[Configuration] | None = None
        """Reads them now, for all who ask meanwhile: reading may be a plugin's process."""

    async def configuration(self, *, renewed: bool = False) -> Configuration:
        """The configuration as it is now; read again if it is old or to be `renewed`.

        Raises:
            AccessError: it cannot be read.
        """
        found = self._configuration
        if found is None or renewed or time.monotonic() - self._loaded_at_s > RENEW_S:
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
                self._reading.add_done_callback(self._has_read)
            found = await asyncio.shield(self._reading)
        return found

    def expire(self) -> None:
        """Read it again at the next call: a certificate that it names is gone."""
        self._loaded_at_s = float("-inf")

    async def _read(self) -> Configuration:
        now_s, fresh = time.monotonic(), Configuration()
        forget_lost_files()
        try:
            async with asyncio.timeout(READ_S) as limit:
                await self._load(fresh)
        except _UNREADABLE as error:
            why = " ".join(_reason(error).split()) or type(error).__name__
            if limit.expired():
                why = f"reading it took longer than {READ_S:g} s; perhaps its plugin hangs"
            raise AccessError(f"{self.said}: {why}; {_ADVICE}") from error
        before, self._configuration, self._loaded_at_s = self._configuration, fresh, now_s
        for name in _files(before) - _files(fresh):
            remove_file(name)  # a plugin may give another certificate each time
        return fresh

    def _has_read(self, reading: "asyncio.Task[Configuration]") -> None:
        self._reading = None
        if not reading.cancelled():
            reading.exception()  # raised for those who wait, who may have gone


def _files(configuration: Configuration | None) -> set[str]:
    """Names of the files with its certificates and its key."""
    if configuration is None:
        return set()
    names = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return {name for name in names if name}


def access(kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """Access by a kubeconfig, or by the pod's service account if none is named or there.

    Raises:
        AccessError: neither is there.
    """
    named = (kubeconfig,) if kubeconfig else _default_kubeconfigs()
    if not named and context is not None:
        raise AccessError(
            f"context {context} is one of a kubeconfig, and none was found; {_ADVICE}"
        )
    if not named:
        if not os.environ.get(SERVICE_HOST_ENV_NAME):
            raise AccessError(
                f"no kubeconfig was found, and this is no pod of a cluster; {_ADVICE}"
            )
        return Access(_from_service_account, "the pod's service account")

    plugin.use()

    async def from_kubeconfig(configuration: Configuration) -> None:
        there = _read(named)
        chosen = context or _current_context(there)
        _check(there, chosen)
        await load_kube_config(
            os.pathsep.join(map(str, there)),
            chosen,
            client_configuration=configuration,
            persist_config=False,
        )
        _trim_token(configuration)
        if (file := _user(there, chosen).get("tokenFile")) and not _token(configuration):
            raise ConfigException(f"token file {file} is empty")  # perhaps it is being written

    said = f"kubeconfig {os.pathsep.join(map(str, named))}"
    return Access(from_kubeconfig, said + (f", context {context}" if context else ""))


def _reason(error: Exception) -> str:
    """Why credentials cannot be read, in words; numbers of errors and codecs are none."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename} cannot be read: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):
        return f"found the byte 0x{error.object[error.start]:02x}, which is not UTF-8"
    return str(error)


def _default_kubeconfigs() -> tuple[Path, ...]:
    """Those that are named; several are taken together."""
    if named := os.environ.get("KUBECONFIG"):
        return tuple(Path(each).expanduser() for each in named.split(os.pathsep) if each)
    usual = Path.home() / ".kube" / "config"
    in_pod = os.environ.get(SERVICE_HOST_ENV_NAME) and Path(SERVICE_TOKEN_FILENAME).exists()
    return (usual,) if usual.exists() and not in_pod else ()


def _read(named: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """What the kubeconfigs that are there say; one that is empty says nothing, as with kubectl.

    Raises ConfigException.
    """
    there = [each for each in named if each.exists()]
    if not there:
        raise ConfigException("there is no such file")
    found: dict[Path, dict[str, Any]] = {}
    for each in there:
        said = yaml.safe_load(each.read_text(encoding="utf-8"))
        if said is None:
            continue
        if not isinstance(said, dict):
            kind = "a list" if isinstance(said, list) else "one value"  # perhaps a secret
            raise ConfigException(f"found {kind} in {each}; {_EXPECTED}")
        found[each] = said
    if not found:
        raise ConfigException(f"found nothing in it; {_EXPECTED}")
    return found


def _current_context(kubeconfigs: Mapping[Path, dict[str, Any]]) -> str | None:
    """The one of the first file that names one, as with kubectl; the client takes the last one's."""
    for found in kubeconfigs.values():
        if context := found.get("current-context"):
            return str(context)
    return None


def _check(kubeconfigs: Mapping[Path, dict[str, Any]], context: str | None) -> None:
    """Raise ConfigException where there is no context, or not its user: the client fails oddly."""
    contexts = _named(kubeconfigs, "contexts")
    if context is None:
        there = ", ".join(contexts) or "none"
        raise ConfigException(f"there is no current-context; contexts are {there}")
    if context not in contexts:
        return  # which the client says
    user, users = _user_name(contexts[context]), _named(kubeconfigs, "users")
    if user not in users:
        who = f"names user {user}" if user else "names no user"
        raise ConfigException(f"context {context} {who}; users are {', '.join(users) or 'none'}")


def _user(kubeconfigs: Mapping[Path, dict[str, Any]], context: str | None) -> dict[str, Any]:
    """The user of a context that was checked."""
    name = _user_name(_named(kubeconfigs, "contexts")[str(context)])
    return _named(kubeconfigs, "users")[str(name)].get("user") or {}


def _user_name(context: Mapping[str, Any]) -> str | None:
    return (context.get("context") or {}).get("user")


def _named(kubeconfigs: Mapping[Path, dict[str, Any]], what: str) -> dict[str, dict[str, Any]]:
    """Entries of all files by name; of one name the first counts."""
    named: dict[str, dict[str, Any]] = {}
    for found in kubeconfigs.values():
        for each in found.get(what) or ():
            named.setdefault(str(each.get("name")), each)
    return named


def _token(configuration: Configuration) -> str:
    """The token without its prefix; empty: there is none."""
    found: str = configuration.api_key.get("BearerToken") or ""
    return found.removeprefix("Bearer").strip()


def _trim_token(configuration: Configuration) -> None:
    """A file with a token may end with a line break, which no header may have."""
    if found := configuration.api_key.get("BearerToken"):
        configuration.api_key["BearerToken"] = found.strip()


async def _from_service_account(configuration: Configuration) -> None:
    load_incluster_config(  # type: ignore[no-untyped-call]
        client_configuration=configuration,
        try_refresh_token=False,  # it is read again here, with its errors
        token_filename=SERVICE_TOKEN_FILENAME,
        cert_filename=SERVICE_CERT_FILENAME,
    )
    _trim_token(configuration)
