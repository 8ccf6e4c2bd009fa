"""`/metrics` and health of a process, on one port.

A thread answers, so that a process whose event loop hangs still does. A check answers with JSON:
`{"ok": false, "problems": ["..."]}`, with status 503 if there are problems.
"""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import orjson
from prometheus_client import CollectorRegistry, Info, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder

#: Returns what is wrong; empty: nothing.
Problems = Callable[[], Sequence[str]]


class PortUnusable(OSError):
    """The port cannot be listened on."""


def process_registry() -> CollectorRegistry:
    """A registry with the CPU and the memory of this process, and with the version that runs."""
    from importlib.metadata import version

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    build = Info("loadstream_build", "The version that runs.", registry=registry)
    build.info({"version": version("loadstream")})
    return registry


@contextmanager
def serving(
    host: str, port: int, registry: CollectorRegistry, problems: Problems
) -> Iterator[None]:
    """Answer `/metrics` and `/healthz` for as long as the block runs; port 0: nowhere.

    Raises PortUnusable.
    """
    if not port:
        yield
        return
    server = serve(host, port, registry, {"/healthz": problems})
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def serve(
    host: str, port: int, registry: CollectorRegistry, checks: Mapping[str, Problems]
) -> ThreadingHTTPServer:
    """Answer on a port until `shutdown`; port 0: one that the system chooses, in `server_port`.

    Args:
        host: an address of this machine; empty: all of them.
        port: where to answer.
        registry: what `/metrics` shows.
        checks: the path of each check, and its problems; empty: all is well. Called in another thread.

    Raises:
        PortUnusable: the port cannot be listened on.
    """

    class Handler(_Handler):
        def answer(self, path: str) -> tuple[int, str, bytes]:
            if path == "/metrics":
                encoder, content_type = choose_encoder(self.headers.get("Accept", ""))
                return 200, content_type, encoder(registry)
            if path in checks:
                problems = list(checks[path]())
                body = orjson.dumps({"ok": not problems, "problems": problems}) + b"\n"
                return (503 if problems else 200), "application/json", body
            known = ", ".join(("/metrics", *checks))
            return 404, "text/plain; charset=utf-8", f"{known}\n".encode()

    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per metric, for readers other than Prometheus
    try:
        server = _server(host, port, Handler)
    except OSError as error:
        raise PortUnusable(
            f"metrics port: port {port}{f' of {host}' if host else ''} cannot be listened on: "
            f"{error.strerror}; expected one that is free, or 0 for no metrics, and an address of "
            "this machine"
        ) from error
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


def _server(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """Listens on an address of either family; without one on all, of both where there is IPv6."""
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    server = ThreadingHTTPServer((host, port), handler, bind_and_activate=False)
    server.socket.close()  # of IPv4, whatever the address
    server.socket = socket.create_server((host, port), family=family, dualstack_ipv6=both)
    server.server_port = server.socket.getsockname()[1]
    return server


class _Handler(BaseHTTPRequestHandler):
    server_version = "loadstream"
    sys_version = ""
    #: A client that says nothing for so long is dropped, in seconds.
    timeout = 10

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Answer a request."""
        status, content_type, body = self.answer(urlsplit(self.path).path)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Scrapes and probes come every few seconds and are no news."""
