"""The HTTP port of a process."""

import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter

from connectors.process import metrics_endpoint
from connectors.process.local_ports import find_free_port
from connectors.process.metrics_endpoint import (
    CONNECTIONS_MAX,
    WAITING_MAX,
    Endpoint,
    PortUnusable,
    create_process_registry,
    serve_while_open,
)
from tests.conftest import has_ipv6


def _get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    """Return status and body, with status 0 if no server answers."""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


@pytest.fixture
def server() -> Iterator[tuple[Endpoint, list[str]]]:
    registry = CollectorRegistry()
    Counter("asked", "Something.", registry=registry).inc(3)
    problems: list[str] = []
    running = Endpoint(
        "127.0.0.1", 0, registry, {"/healthz": lambda: problems, "/readyz": lambda: ["starting"]}
    )
    yield running, problems
    running.close()


def test_metrics_are_those_of_the_registry(server: tuple[Endpoint, list[str]]) -> None:
    status, body = _get(server[0].port, "/metrics")
    assert status == 200
    assert "asked_total 3.0" in body


def test_health_reports_problems(server: tuple[Endpoint, list[str]]) -> None:
    running, problems = server
    assert _get(running.port, "/healthz") == (200, '{"ok":true,"problems":[]}\n')
    problems.append("nothing was measured for 60 s")
    status, body = _get(running.port, "/healthz?verbose")
    assert (status, json.loads(body)["problems"]) == (503, problems)


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize(
    ("host", "answers"),
    [("", ["127.0.0.1", "[::1]"]), ("::1", ["[::1]"]), ("127.0.0.1", ["127.0.0.1"])],
)
def test_the_server_listens_on_ipv4_and_ipv6_unless_an_address_is_given(
    host: str, answers: list[str]
) -> None:
    running = Endpoint(host, 0, CollectorRegistry(), {"/healthz": list})
    try:
        hosts = [
            host
            for host in ("127.0.0.1", "[::1]")
            if _get(running.port, "/healthz", host)[0] == 200
        ]
    finally:
        running.close()
    assert hosts == answers


def test_an_error_names_a_port_that_is_in_use(server: tuple[Endpoint, list[str]]) -> None:
    port = server[0].port
    with pytest.raises(PortUnusable, match=rf"cannot listen on port {port} of 127\.0\.0\.1"):
        Endpoint("127.0.0.1", port, CollectorRegistry(), {})


def test_the_server_runs_until_the_end_of_the_block() -> None:
    port = find_free_port()
    with serve_while_open("127.0.0.1", port, create_process_registry(), list):
        status, body = _get(port, "/metrics")
        assert status == 200
        assert 'loadstream_build_info{version="' in body
        assert "process_cpu_seconds_total" in body
    assert _get(port, "/metrics")[0] == 0


def _open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_slow_clients_use_a_limited_number_of_connections_and_do_not_block_probes(
    server: tuple[Endpoint, list[str]],
) -> None:
    """Otherwise they use all file descriptors of a process, which then cannot connect to Kafka."""
    port = server[0].port
    before = _open_descriptors()
    clients = []
    try:
        for number in range(300):
            client = socket.create_connection(("127.0.0.1", port), timeout=60)
            clients.append(client)
            client.sendall(b"GET /metrics HTTP/1.1\r\n")
            if number % 100 == 0:
                assert _get(port, "/healthz")[0] == 200
        assert _get(port, "/healthz")[0] == 200
        # Descriptors of the clients also belong to this process. The server briefly also has those that
        # it has accepted at once.
        most = CONNECTIONS_MAX + WAITING_MAX + 8
        assert _open_descriptors() - before - len(clients) <= most < len(clients)
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    "sent", [b"GET /metrics HTTP/1.1\r\n", b"", b"GET /healthz HTTP/1.1\r\n\r\n"]
)
def test_a_connection_ends_at_its_deadline(
    server: tuple[Endpoint, list[str]], monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(metrics_endpoint, "DEADLINE_S", 0.5)
    with socket.create_connection(("127.0.0.1", server[0].port), timeout=60) as client:
        client.sendall(sent)
        client.settimeout(60)
        received = b""
        while more := client.recv(4096):
            received += more
        assert (b" 200 OK" in received) == (b"healthz" in sent)
