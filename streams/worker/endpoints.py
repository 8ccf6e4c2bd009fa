"""`/metrics`, `/healthz` and `/readyz` of a worker, on one port.

A thread of its own answers, so that a worker whose event loop hangs still says so. Health comes as
JSON: `{"ok": false, "problems": ["..."]}`, with status 503 where something is wrong.
"""

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import orjson
from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from streams.worker.report.health import Health


class PortUnusable(OSError):
    """The port cannot be listened on."""


def serve(host: str, port: int, registry: CollectorRegistry, health: Health) -> ThreadingHTTPServer:
    """Answer on a port until `shutdown`; 0: one that the system chooses, in `server_port`.

    `host`: an address of this machine; empty: all of them.

    Raises PortUnusable.
    """

    class Handler(_Handler):
        def answer(self, path: str) -> tuple[int, str, bytes]:
            if path == "/metrics":
                encoder, content_type = choose_encoder(self.headers.get("Accept", ""))
                return 200, content_type, encoder(registry)
            if path == "/healthz":
                return _verdict(health.deadly())
            if path == "/readyz":
                return _verdict(health.hindering())
            return 404, "text/plain; charset=utf-8", b"/metrics, /healthz or /readyz\n"

    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series beside each, for readers that are no Prometheus
    try:
        server = _server(host, port, Handler)
    except OSError as error:
        raise PortUnusable(
            f"LOADSTREAM_WORKER_METRICS_PORT: port {port}{f' of {host}' if host else ''} cannot be listened "
            f"on: {error.strerror}; expected one that is free, or 0 for no metrics, and an address of this "
            "machine in LOADSTREAM_WORKER_METRICS_HOST"
        ) from error
    threading.Thread(target=server.serve_forever, name="endpoints", daemon=True).start()
    return server


def _verdict(problems: Any) -> tuple[int, str, bytes]:
    body = orjson.dumps({"ok": not problems, "problems": list(problems)}) + b"\n"
    return (503 if problems else 200), "application/json", body


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
