"""Ports for servers that are started on this machine."""

import socket
import subprocess
import sys

import pytest

from connectors.process import local_ports
from connectors.process.local_ports import find_free_port

_OTHER = """
import sys
from connectors.process import local_ports
local_ports._FIRST = local_ports._LAST = int(sys.argv[1])
print(local_ports.find_free_port(), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere names are not free again by themselves"
)
def test_the_port_of_another_process_is_free_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    with subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-c", _OTHER, str(free)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert int(other.stdout.readline()) == free
        monkeypatch.setattr(local_ports, "_FIRST", free)
        monkeypatch.setattr(local_ports, "_LAST", free)
        with pytest.raises(OSError, match="found no free port"):
            find_free_port()
        other.kill()
    assert find_free_port() == free


def test_each_port_is_returned_once() -> None:
    ports = [find_free_port() for _ in range(200)]
    assert len(set(ports)) == len(ports)
