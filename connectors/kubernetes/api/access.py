"""Address of an API server, and credentials for it.

Both come from a context of a kubeconfig (`--kubeconfig`, `KUBECONFIG` or `~/.kube/config`), or, inside a
cluster without a kubeconfig, from the service account of the pod. Several files in `KUBECONFIG` are
merged as by kubectl: the first file takes precedence. Credentials change while a process runs: tokens of
service accounts every hour, tokens of plugins at any time. Therefore credentials are read again
regularly, and when a server refuses them.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import (
    ConfigException,
    kube_config,
    load_incluster_config,
    load_kube_config,
)
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
)

from connectors.kubernetes.api.errors import AccessError

#: Credentials are read again after this time, in seconds; tokens of service accounts live longer.
RENEW_S = 60.0
#: Longest time to read credentials, in seconds: all requests wait, and a plugin may hang.
READ_S = 30.0

#: Exceptions that reading credentials may raise; a file that is being written may have any content.
_UNREADABLE = (
    ConfigException, OSError, ValueError, TypeError, AttributeError, AssertionError, yaml.YAMLError,
)  # fmt: skip
_EXPECTED = "expected a map with clusters, contexts and users"
_ADVICE = (
    "set --kubeconfig or KUBECONFIG to a kubeconfig (`kubectl config view` shows its content); "
    "inside a cluster the pod needs a service account whose token is mounted"
)


class Access:
    """Address and current credentials of one API server."""

    def __init__(self, load: Callable[[Configuration], Awaitable[None]], origin: str) -> None:
        """`load` fills a new configuration; `origin` is its description in messages."""
        self._load = load
        self.origin = origin
        self._configuration: Configuration | None = None
        self._loaded_at_s = 0.0
        self._reading: asyncio.Task[Configuration] | None = None
        """The current reading, shared by all callers, because it may start a plugin."""

    async def configuration(self, *, renewed: bool = False) -> Configuration:
        """Return the configuration, read again if it is old or `renewed`; raises AccessError."""
        configuration = self._configuration
        if configuration is None or renewed or time.monotonic() - self._loaded_at_s > RENEW_S:
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
                self._reading.add_done_callback(self._end_reading)
            configuration = await asyncio.shield(self._reading)
        return configuration

    def expire(self) -> None:
        self._loaded_at_s = float("-inf")

    async def _read(self) -> Configuration:
        now_s, fresh = time.monotonic(), Configuration()
        _forget_lost_files()
        try:
            async with asyncio.timeout(READ_S) as limit:
                await self._load(fresh)
        except _UNREADABLE as error:
            why = " ".join(_reason(error).split()) or type(error).__name__
            if limit.expired():
                why = f"reading took longer than {READ_S:g} s; perhaps a plugin hangs"
            raise AccessError(f"{self.origin}: {why}; {_ADVICE}") from error
        previous, self._configuration, self._loaded_at_s = self._configuration, fresh, now_s
        for name in _files(previous) - _files(fresh):
            _remove_file(name)  # a plugin may return a new certificate each time
        return fresh

    def _end_reading(self, reading: "asyncio.Task[Configuration]") -> None:
        self._reading = None
        if not reading.cancelled():
            reading.exception()  # mark as retrieved: all callers may have been cancelled


def _files(configuration: Configuration | None) -> set[str]:
    """Return the names of the files with certificates and key."""
    if configuration is None:
        return set()
    names = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return {name for name in names if name}


def _forget_lost_files() -> None:
    """Forget deleted files with certificates, so that the client library writes them again.

    The library keeps them in a temporary folder, where systems remove unused files after some days.
    """
    files = kube_config._temp_files  # noqa: SLF001 - no other way
    for content in [content for content, name in files.items() if not Path(name).exists()]:
        del files[content]


def _remove_file(name: str) -> None:
    """Remove a file with a certificate or a key, if the client library has written it."""
    files = kube_config._temp_files  # noqa: SLF001
    for content in [content for content, written in files.items() if written == name]:
        del files[content]
        Path(name).unlink(missing_ok=True)


def access(kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """Return access by a kubeconfig, or by the pod's service account; raises AccessError."""
    paths = (kubeconfig,) if kubeconfig else _default_kubeconfigs()
    if not paths and context is not None:
        raise AccessError(f"context {context} needs a kubeconfig, and none was found; {_ADVICE}")
    if not paths:
        if not os.environ.get(SERVICE_HOST_ENV_NAME):
            raise AccessError(f"no kubeconfig was found, and this is not a pod; {_ADVICE}")
        return Access(_from_service_account, "the pod's service account")

    async def from_kubeconfig(configuration: Configuration) -> None:
        kubeconfigs = _read_kubeconfigs(paths)
        chosen, user = _choose_context(list(kubeconfigs.values()), context)
        await load_kube_config(
            os.pathsep.join(map(str, kubeconfigs)),
            chosen,
            client_configuration=configuration,
            persist_config=False,
        )
        _trim_token(configuration)
        token = configuration.api_key.get("BearerToken", "").removeprefix("Bearer")
        if (file := user.get("tokenFile")) and not token:
            raise ConfigException(f"token file {file} is empty")  # perhaps it is being written

    origin = f"kubeconfig {os.pathsep.join(map(str, paths))}"
    return Access(from_kubeconfig, origin + (f", context {context}" if context else ""))


def _reason(error: Exception) -> str:
    """Return a readable reason, without error numbers and codec names."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename} cannot be read: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):
        return f"found the byte 0x{error.object[error.start]:02x}, which is not UTF-8"
    return str(error)


def _default_kubeconfigs() -> tuple[Path, ...]:
    if variable := os.environ.get("KUBECONFIG"):
        return tuple(Path(path).expanduser() for path in variable.split(os.pathsep) if path)
    default = Path.home() / ".kube" / "config"
    in_pod = os.environ.get(SERVICE_HOST_ENV_NAME) and Path(SERVICE_TOKEN_FILENAME).exists()
    return (default,) if default.exists() and not in_pod else ()


def _read_kubeconfigs(paths: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """Return the existing kubeconfigs that are not empty; raises ConfigException."""
    existing = [path for path in paths if path.exists()]
    if not existing:
        raise ConfigException("there is no such file")
    kubeconfigs: dict[Path, dict[str, Any]] = {}
    for path in existing:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if content is None:
            continue
        if not isinstance(content, dict):
            # The value itself may be secret.
            kind = "a list" if isinstance(content, list) else "a single value"
            raise ConfigException(f"found {kind} in {path}; {_EXPECTED}")
        kubeconfigs[path] = content
    if not kubeconfigs:
        raise ConfigException(f"the file is empty; {_EXPECTED}")
    return kubeconfigs


def _choose_context(
    kubeconfigs: Sequence[dict[str, Any]], context: str | None
) -> tuple[str, dict[str, Any]]:
    """Return the given context, or the first current-context, and its user; raises ConfigException.

    The client library uses the current-context of the last file, and ignores an unknown user.
    """
    contexts, users = _entries(kubeconfigs, "contexts"), _entries(kubeconfigs, "users")
    current = (content.get("current-context") for content in kubeconfigs)
    chosen = context or next(filter(None, current), None)
    if chosen is None:
        raise ConfigException(f"there is no current-context; contexts are {_list_names(contexts)}")
    user = (contexts.get(chosen, {}).get("context") or {}).get("user")
    if chosen in contexts and user not in users:
        problem = f"the unknown user {user}" if user else "no user"
        raise ConfigException(f"context {chosen} has {problem}; users are {_list_names(users)}")
    return str(chosen), users.get(str(user), {}).get("user") or {}


def _entries(kubeconfigs: Sequence[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    """Return the entries of all files by name; the first entry of a name counts."""
    entries = [entry for content in kubeconfigs for entry in content.get(kind) or ()]
    return {str(entry.get("name")): entry for entry in reversed(entries)}


def _list_names(entries: dict[str, Any]) -> str:
    return ", ".join(reversed(entries)) or "none"


def _trim_token(configuration: Configuration) -> None:
    """Remove the line break at the end of a token file, which headers must not have."""
    if token := configuration.api_key.get("BearerToken"):
        configuration.api_key["BearerToken"] = token.strip()


async def _from_service_account(configuration: Configuration) -> None:
    load_incluster_config(  # type: ignore[no-untyped-call]
        client_configuration=configuration,
        try_refresh_token=False,  # `Access` reads the token again
        token_filename=SERVICE_TOKEN_FILENAME,
        cert_filename=SERVICE_CERT_FILENAME,
    )
    _trim_token(configuration)
