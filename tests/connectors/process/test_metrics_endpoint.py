"""The port of a process."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest
from prometheus_client import CollectorRegistry, Counter

from connectors.process.local_ports import free_port
from connectors.process.metrics_endpoint import PortUnusable, process_registry, serve, serving
from tests.conftest import has_ipv6


def _get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    """Status and body; 0: nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


@pytest.fixture
def server() -> Iterator[tuple[ThreadingHTTPServer, list[str]]]:
    registry = CollectorRegistry()
    Counter("asked", "Something.", registry=registry).inc(3)
    problems: list[str] = []
    running = serve(
        "127.0.0.1", 0, registry, {"/healthz": lambda: problems, "/readyz": lambda: ["starting"]}
    )
    yield running, problems
    running.shutdown()
    running.server_close()


def test_metrics_are_those_of_the_registry(server: tuple[ThreadingHTTPServer, list[str]]) -> None:
    status, body = _get(server[0].server_port, "/metrics")
    assert status == 200
    assert "asked_total 3.0" in body


def test_health_says_what_is_wrong(server: tuple[ThreadingHTTPServer, list[str]]) -> None:
    running, problems = server
    assert _get(running.server_port, "/healthz") == (200, '{"ok":true,"problems":[]}\n')
    problems.append("nothing was measured for 60 s")
    status, body = _get(running.server_port, "/healthz?verbose")
    assert (status, json.loads(body)["problems"]) == (503, problems)


def test_each_check_has_its_own_path(server: tuple[ThreadingHTTPServer, list[str]]) -> None:
    port = server[0].server_port
    assert _get(port, "/healthz")[0] == 200
    assert _get(port, "/readyz") == (503, '{"ok":false,"problems":["starting"]}\n')


def test_other_paths_say_what_there_is(server: tuple[ThreadingHTTPServer, list[str]]) -> None:
    assert _get(server[0].server_port, "/") == (404, "/metrics, /healthz, /readyz\n")


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize(
    ("host", "answers"),
    [("", ["127.0.0.1", "[::1]"]), ("::1", ["[::1]"]), ("127.0.0.1", ["127.0.0.1"])],
)
def test_both_families_of_addresses_are_listened_on_unless_one_is_named(
    host: str, answers: list[str]
) -> None:
    running = serve(host, 0, CollectorRegistry(), {"/healthz": list})
    try:
        found = [
            each
            for each in ("127.0.0.1", "[::1]")
            if _get(running.server_port, "/healthz", each)[0] == 200
        ]
    finally:
        running.shutdown()
        running.server_close()
    assert found == answers


def test_a_port_that_is_taken_is_named(server: tuple[ThreadingHTTPServer, list[str]]) -> None:
    port = server[0].server_port
    with pytest.raises(PortUnusable, match=rf"port {port} of 127\.0\.0\.1 cannot be listened on"):
        serve("127.0.0.1", port, CollectorRegistry(), {})


def test_it_answers_as_long_as_the_block_runs() -> None:
    port = free_port(set())
    with serving("127.0.0.1", port, process_registry(), list):
        status, body = _get(port, "/metrics")
        assert status == 200
        assert 'loadstream_build_info{version="' in body
        assert "process_cpu_seconds_total" in body
    assert _get(port, "/metrics")[0] == 0


def test_port_0_is_none() -> None:
    with serving("", 0, CollectorRegistry(), list):
        pass
