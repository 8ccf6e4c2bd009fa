"""Runs a credential plugin as kubernetes-asyncio does, but ends its process after a timeout.

`access` gives up a plugin that hangs, for example because the network drops its packets. The library would
leave its process running: one more per attempt, and each would delay the end of our process.

Source: kubernetes-asyncio's config/exec_provider.py, `ExecProvider.run`.
"""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from typing import Any

from connectors.kubernetes.api.client_parts import ConfigException, ExecProvider, kube_config


class CredentialPlugin(ExecProvider):
    async def run(self, previous_response: str | None = None) -> Any:
        """Run the plugin and return its status; raises ConfigException."""
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
            output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode != 0:
            why = errors.decode(errors="replace").strip()
            raise ConfigException(f"exec: process returned {process.returncode}. {why}".strip())
        return self._parse_status(output)

    def _parse_status(self, output: bytes) -> Any:
        try:
            found = json.loads(output)
        except ValueError as error:
            raise ConfigException(f"exec: failed to decode process output: {error}") from error
        if not isinstance(found, dict):
            raise ConfigException(
                "exec: the plugin's output is not a map; expected an ExecCredential"
            )
        missing = [key for key in ("apiVersion", "kind", "status") if key not in found]
        if missing:
            raise ConfigException(f"exec: malformed response. missing key '{missing[0]}'")
        if found["apiVersion"] != self.api_version:
            raise ConfigException(
                f"exec: plugin api version {found['apiVersion']} does not match {self.api_version}"
            )
        status = found["status"] or {}
        if not (status.get("token") or status.get("clientCertificateData")):
            raise ConfigException("exec: the plugin's output has neither a token nor a certificate")
        return status


def install() -> None:
    kube_config.ExecProvider = CredentialPlugin  # type: ignore[attr-defined]
