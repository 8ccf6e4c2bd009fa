"""Ports for servers that are started on this machine."""

import os
import subprocess
import sys

import pytest

from connectors.process import local_ports
from connectors.process.local_ports import find_free_port

_OTHER = """
import sys
from connectors.process import local_ports
local_ports._FIRST = local_ports._LAST = int(sys.argv[1])
print(local_ports.find_free_port(set()), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere names are not free again by themselves"
)
def test_a_port_that_another_process_was_given_is_free_again_when_that_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = _unclaimed(monkeypatch)
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
            find_free_port(set())
        other.kill()
    assert find_free_port(set()) == free


def test_a_process_is_given_a_port_once() -> None:
    ports = [find_free_port(set()) for _ in range(200)]
    assert len(set(ports)) == len(ports)


def _unclaimed(monkeypatch: pytest.MonkeyPatch) -> int:
    """A port that this process has given back.

    It is none of those that other processes of the run ask for meanwhile.
    """
    monkeypatch.setattr(local_ports, "_FIRST", 10_000)
    monkeypatch.setattr(local_ports, "_LAST", 19_999)
    port = find_free_port(set())
    os.close(local_ports._claims.pop())
    return port
