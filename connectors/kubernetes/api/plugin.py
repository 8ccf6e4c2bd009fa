"""Credentials from a plugin, run as by kubernetes-asyncio, but it ends when it is not waited for.

`access` gives up a plugin that hangs, for example on a network that drops its packets. Then its
process is ended: otherwise it would stay, one more with each attempt, and hold up the end of ours.

Source: kubernetes-asyncio's config/exec_provider.py, `ExecProvider.run`.
"""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from typing import Any

from connectors.kubernetes.api.client_parts import ConfigException, ExecProvider, kube_config


class CredentialPlugin(ExecProvider):
    """One run of a plugin."""

    async def run(self, previous_response: str | None = None) -> Any:
        """The status that it answers with; raises ConfigException."""
        spec: dict[str, Any] = {"interactive": sys.stdout.isatty()}
        if previous_response:
            spec["response"] = previous_response
        about = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        try:
            process = await asyncio.create_subprocess_exec(
                *self.args,
                env={**self.env, "KUBERNETES_EXEC_INFO": json.dumps(about)},
                stdout=PIPE,
                stderr=PIPE,
            )
        except OSError as error:
            why = f"plugin {self.args[0]} cannot be run: {error.strerror}"
            raise ConfigException(f"exec: {why}; is it installed, and in PATH?") from error
        try:
            said, complained = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode != 0:
            why = complained.decode(errors="replace").strip()
            raise ConfigException(f"exec: process returned {process.returncode}. {why}".strip())
        return self._status(said)

    def _status(self, said: bytes) -> Any:
        try:
            found = json.loads(said)
        except ValueError as error:
            raise ConfigException(f"exec: failed to decode process output: {error}") from error
        if not isinstance(found, dict):
            raise ConfigException("exec: the plugin's answer is no map; expected an ExecCredential")
        lacks = [key for key in ("apiVersion", "kind", "status") if key not in found]
        if lacks:
            raise ConfigException(f"exec: malformed response. missing key '{lacks[0]}'")
        if found["apiVersion"] != self.api_version:
            raise ConfigException(
                f"exec: plugin api version {found['apiVersion']} does not match {self.api_version}"
            )
        status = found["status"] or {}
        if not (status.get("token") or status.get("clientCertificateData")):
            raise ConfigException("exec: the plugin's answer has neither token nor certificate")
        return status


def use() -> None:
    """Let kubeconfigs with plugins be read in this way."""
    kube_config.ExecProvider = CredentialPlugin  # type: ignore[attr-defined]
