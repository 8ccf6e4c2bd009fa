"""A fake API server with lists and watches, and with rare faults of a real server."""

import asyncio
from copy import deepcopy
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration

from connectors.kubernetes.api.access import Access
from connectors.kubernetes.watch.kinds import KINDS, PODS
from connectors.kubernetes.watch.volumes import CLAIMS, VOLUMES
from connectors.process.local_ports import find_free_port

Object = dict[str, Any]


class FakeApi:
    """Serves the objects that tests put into it."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Object]] = {
            path: {} for path in (*KINDS, VOLUMES, CLAIMS, PODS)
        }
        self.refused: dict[str, int] = {}
        """Status with which a path is refused."""
        self.version = 100
        self.compacted = 0
        """Watches from before this version are too old."""
        self.gone_in_stream = True
        """A watch that is too old is answered with an ERROR event, else with status 410."""
        self.silent = False
        """Watches stay connected and send nothing."""
        self.pages_expire = 0
        """How many continuations of lists are refused as too old from now on."""
        self.lists: list[str] = []
        self.watches: list[str] = []
        self._log: list[tuple[int, str, str, Object]] = []
        self._snapshots: dict[str, tuple[int, list[Object]]] = {}
        self._moved = asyncio.Event()
        self._watching: list[web.Request] = []

    # --- what is there --------------------------------------------------------------------------

    def put(self, path: str, document: Object) -> None:
        """Add or change an object."""
        document = deepcopy(document)
        meta = document["metadata"]
        meta.setdefault("uid", f"uid-{meta.get('namespace', '')}-{meta['name']}")
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        key = _key(document)
        kind = "MODIFIED" if key in self.objects[path] else "ADDED"
        self.objects[path][key] = document
        self._say(path, kind, document)

    def delete(self, path: str, key: str) -> None:
        """Delete an object; `key` is its namespace, if any, and its name."""
        document = deepcopy(self.objects[path].pop(key))
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        self._say(path, "DELETED", document)

    def compact(self) -> None:
        """Forget past events: earlier versions are too old for watches."""
        self.version += 1
        self.compacted = self.version
        self._log.clear()

    def drop_watches(self, *, in_a_line: bool = False) -> None:
        """Disconnect all watches, optionally in the middle of a line."""
        for request in self._watching:
            if request.transport is not None:
                if in_a_line:
                    request.transport.write(b'8\r\n{"type":\r\n')
                request.transport.close()
        self._watching.clear()
        self._move()

    def send_error(self, path: str, message: str) -> None:
        """Send an ERROR event to the watches of a path."""
        self.version += 1
        self._say(path, "ERROR", _status(500, "InternalError", message))

    def _say(self, path: str, kind: str, document: Object) -> None:
        self._log.append((self.version, path, kind, document))
        self._move()

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    # --- answers --------------------------------------------------------------------------------

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        path = request.path
        if (status := self.refused.get(path)) is not None:
            return _refusal(status, "Forbidden", f"{path} is refused")
        if request.query.get("watch"):
            self.watches.append(path)
            return await self._watch(request, path)
        if request.query.get("resourceVersionMatch") == "NotOlderThan":
            return self._has_come_to(int(request.query["resourceVersion"]))
        self.lists.append(path)
        return self._list(request, path)

    def _has_come_to(self, version: int) -> web.Response:
        """Answer a list that must not be older than a version; clients only use its status."""
        if version > self.version:
            return _refusal(504, "Timeout", "Too large resource version", "ResourceVersionTooLarge")
        return web.json_response({"kind": "List", "metadata": {}, "items": []})

    def _list(self, request: web.Request, path: str) -> web.Response:
        token, limit = request.query.get("continue"), int(request.query["limit"])
        if token is None:
            # Objects of a list have neither kind nor apiVersion.
            items = [
                {k: v for k, v in item.items() if k not in ("kind", "apiVersion")}
                for item in self.objects[path].values()
            ]
            version = self.version
        elif self.pages_expire:
            self.pages_expire -= 1
            return _refusal(410, "Expired", "the provided continue parameter is too old")
        else:
            version, items = self._snapshots.pop(token)
        meta = {"resourceVersion": str(version)}
        if len(items) > limit:
            meta["continue"] = f"{path}:{version}:{len(items)}"
            self._snapshots[meta["continue"]] = (version, items[limit:])
        body = orjson.dumps({"kind": "List", "metadata": meta, "items": items[:limit]})
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request, path: str) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.compacted and not self.gone_in_stream:
            return _refusal(410, "Expired", "too old resource version")
        answer = web.StreamResponse()
        await answer.prepare(request)
        if since < self.compacted:
            await _line(answer, "ERROR", _status(410, "Expired", "too old resource version"))
            return answer
        self._watching.append(request)
        try:
            while request.transport is not None and not request.transport.is_closing():
                moved = self._moved
                for version, of, kind, document in () if self.silent else tuple(self._log):
                    if of == path and version > since:
                        await _line(answer, kind, document)
                        since = version
                await moved.wait()
        except ConnectionError:
            pass
        finally:
            self._watching = [watched for watched in self._watching if watched is not request]
        return answer


def _key(document: Object) -> str:
    meta = document["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])


async def _line(answer: web.StreamResponse, kind: str, document: Object) -> None:
    await answer.write(orjson.dumps({"type": kind, "object": document}) + b"\n")


def _status(code: int, reason: str, message: str, cause: str = "") -> Object:
    causes = [{"reason": cause, "message": message}] if cause else []
    return {
        "kind": "Status", "code": code, "reason": reason, "message": message, "status": "Failure",
        "details": {"causes": causes},
    }  # fmt: skip


def _refusal(code: int, reason: str, message: str, cause: str = "") -> web.Response:
    body = orjson.dumps(_status(code, reason, message, cause))
    return web.Response(status=code, body=body, content_type="application/json")


class Served:
    """A fake API server at a port that can be stopped and restarted."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self._server: TestServer | None = None
        # The port stays reserved while the server is stopped.
        self._port = find_free_port()

    async def start(self) -> None:
        """Listen at the same port as before."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.api.answer)
        self._server = TestServer(app, port=self._port)
        await self._server.start_server(shutdown_timeout=0.1)

    async def stop(self) -> None:
        """Refuse connections."""
        self.api.drop_watches()
        if self._server is not None:
            await self._server.close()
            self._server = None

    @property
    def access(self) -> Access:
        """Return credentials, which are not checked."""

        async def load(configuration: Configuration) -> None:
            configuration.host = f"http://127.0.0.1:{self._port}"

        return Access(load, "the played API server")
