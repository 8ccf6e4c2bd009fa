"""`/metrics` and health checks of a process, on one port.

A thread with its own event loop answers, so the endpoint works even if the main event loop hangs. A
check returns JSON: `{"ok": false, "problems": ["..."]}`, with status 503 if there are problems.

The number of open connections is limited, and every connection has a deadline. A connection beyond the
limit closes the oldest connection. So slow or numerous clients cannot block a probe.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from http import HTTPStatus
from urllib.parse import urlsplit

import orjson
from prometheus_client import CollectorRegistry, Info, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder

#: Most open connections; a further connection closes the oldest.
CONNECTIONS_MAX = 32
#: Most connections that wait to be accepted.
WAITING_MAX = 128
#: Longest duration of a connection, including the answer, in seconds.
DEADLINE_S = 5.0
#: Longest request including headers, in bytes.
_REQUEST_BYTES_MAX = 16 * 1024

#: Returns current problems as sentences; empty if all is well.
Problems = Callable[[], Sequence[str]]


class PortUnusable(OSError):
    """The process cannot listen on the port."""


def create_process_registry() -> CollectorRegistry:
    """Return a registry with CPU and memory of this process, and the running version."""
    from importlib.metadata import version

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    build = Info("loadstream_build", "Running version.", registry=registry)
    build.info({"version": version("loadstream")})
    return registry


@contextmanager
def serve_while_open(
    host: str, port: int, registry: CollectorRegistry, problems: Problems
) -> Iterator[None]:
    """Answer `/metrics` and `/healthz` while the block runs; not at all with port 0.

    Raises PortUnusable.
    """
    with closing(Endpoint(host, port, registry, {"/healthz": problems})) if port else nullcontext():
        yield


class Endpoint:
    """Answers requests on a port, in a thread, until `close`."""

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, checks: Mapping[str, Problems]
    ) -> None:
        """Listen on a port; raises PortUnusable.

        Args:
            host: an address of this machine; empty: all addresses.
            port: 0: the system chooses one.
            registry: content of `/metrics`.
            checks: path and function of each check; the functions are called in another thread.
        """
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the number of series
        try:
            listening = _listen(host, port)
        except OSError as error:
            raise PortUnusable(
                f"metrics port: cannot listen on port {port}{f' of {host}' if host else ''}: "
                f"{error.strerror}; expected a free port (or 0 for no metrics) and an address of this machine"
            ) from error
        self.port: int = listening.getsockname()[1]
        self._registry = registry
        self._checks = checks
        self._connections: dict[asyncio.Task[None], None] = {}
        """Open connections, oldest first."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete,
            args=(self._run(listening),),
            name="metrics",
            daemon=True,
        )
        self._closing = asyncio.Event()
        self._thread.start()

    def close(self) -> None:
        """Close the port and all connections, and end the thread."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        self._loop.close()

    async def _run(self, listening: socket.socket) -> None:
        server = await asyncio.start_server(
            self._accept, sock=listening, limit=_REQUEST_BYTES_MAX, backlog=WAITING_MAX
        )
        async with server:
            await self._closing.wait()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
        connection = self._loop.create_task(self._handle_connection(reader, writer))
        self._connections[connection] = None
        # Not in the task, which may be cancelled before it starts.
        connection.add_done_callback(lambda _: writer.transport.abort())
        connection.add_done_callback(lambda done: self._connections.pop(done, None))

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one request; slow or invalid clients are disconnected."""
        errors = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
        with suppress(*errors):
            async with asyncio.timeout(DEADLINE_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(request.decode("latin-1")))
                await writer.drain()
                writer.write_eof()
                await reader.read()  # wait until the client has read the answer and closed

    def _answer(self, request: str) -> bytes:
        line, *headers = request.split("\r\n")
        method, _, target = line.partition(" ")
        if method != "GET":
            return _encode(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", b"GET\n")
        path = urlsplit(target.partition(" ")[0]).path
        if path == "/metrics":
            fields = [header.partition(":") for header in headers]
            accepted = [value for name, _, value in fields if name.lower() == "accept"]
            encode, content_type = choose_encoder(",".join(accepted))
            return _encode(HTTPStatus.OK, content_type, encode(self._registry))
        if path in self._checks:
            problems = list(self._checks[path]())
            body = orjson.dumps({"ok": not problems, "problems": problems}) + b"\n"
            status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
            return _encode(status, "application/json", body)
        paths = ", ".join(("/metrics", *self._checks))
        return _encode(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", f"{paths}\n".encode())


def _listen(host: str, port: int) -> socket.socket:
    """Listen on an address; without an address, on all IPv4 and IPv6 addresses."""
    is_dual_stack = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_dual_stack or ":" in host else socket.AF_INET
    return socket.create_server(
        (host, port), family=family, backlog=WAITING_MAX, dualstack_ipv6=is_dual_stack
    )


def _encode(status: HTTPStatus, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nServer: loadstream\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + body
