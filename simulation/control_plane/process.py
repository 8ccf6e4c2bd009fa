"""One part of a control plane as a child process.

A part can be started, stopped and killed any number of times. It keeps its port and data.
"""

import ssl
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from connectors.process.child_process import ChildProcess
from simulation.control_plane.build import ControlPlaneUnavailable

#: On a machine that is busy with tests, an API server starts in 20 s.
_START_TIMEOUT_S = 120.0
#: A stopping etcd waits for its clients. Killing it loses no data.
_STOP_TIMEOUT_S = 5.0
_HEALTH_TIMEOUT_S = 2.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Health:
    """The address that returns status 200 when a part is ready."""

    url: str
    token: str = ""
    certificate: Path | None = None
    """Certificate of the signing authority; the server may write it during its start."""

    def is_ready(self) -> bool:
        if self.certificate is not None and not self.certificate.exists():
            return False
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(self.url, headers=headers)  # noqa: S310 - our own
        try:
            context = None
            if self.certificate is not None:
                context = ssl.create_default_context(cafile=str(self.certificate))
            with urllib.request.urlopen(  # noqa: S310 - our own
                request, timeout=_HEALTH_TIMEOUT_S, context=context
            ) as answer:
                return bool(answer.status == 200)
        except OSError:  # also an SSLError of an incomplete certificate
            return False


@dataclass(slots=True)
class Part(ChildProcess):
    binary: Path
    name: str
    flags: tuple[str, ...]
    health: Health | None = None
    """None: the part is ready when it runs."""

    def command(self) -> list[str]:
        # kwok would also read a configuration from the user's home directory.
        return ["env", f"HOME={self.directory}", str(self.binary), self.name, *self.flags]

    def start(self) -> None:
        """Start the part, and block until the part is ready.

        Raises ControlPlaneUnavailable with the end of the log if the part ends or takes too long.
        """
        if self.pid is not None:
            return
        self.launch()
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the part, and block until it has ended; kill it after 5 s."""
        self.ask_to_stop()
        self.wait_for_end(_STOP_TIMEOUT_S)

    def _wait_until_ready(self) -> None:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while not (self.health is None or self.health.is_ready()):
            if self.pid is None:
                raise ControlPlaneUnavailable(f"{self.name} ended at start; {self.describe_log()}")
            if time.monotonic() > deadline_s:
                raise ControlPlaneUnavailable(
                    f"{self.name} was not ready within {_START_TIMEOUT_S:.0f} s; {self.describe_log()}"
                )
            time.sleep(_POLL_S)
