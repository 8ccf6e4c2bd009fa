"""Folds the messages of a watch, and compares the result with an API server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from connectors.kubernetes.watch.kinds import KINDS, PODS
from connectors.kubernetes.watch.state_watch import KubernetesWatch
from schemas.base.refusals import Refusal
from schemas.messages.decisions import SchedulingRequest
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodLifecycle
from schemas.topics.codec import decode, encode


class Fold:
    """Nodes, pods on nodes, waiting requests, and objects of all other kinds."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeState] = {}
        self.pods: dict[str, PodLifecycle] = {}
        self.waiting: dict[str, SchedulingRequest] = {}
        self.others: dict[tuple[str, ...], Any] = {}
        self.messages: list[tuple[str, Any]] = []
        self.full_lists = 0
        self._listed: dict[str, set[Any]] = {}

    def apply(self, topic: str, message: Any) -> None:
        """Apply a message like the cluster stage does."""
        self.messages.append((topic, message))
        assert not isinstance(decode(topic, encode(message)), Refusal)
        match message:
            case ListBegin():
                self._listed[topic] = set()
            case ListEnd():
                self._end(topic, message)
            case NodeState(event="removed"):
                self.nodes.pop(message.node, None)
            case NodeState():
                self.nodes[message.node] = message
                self._listed.get(topic, set()).add(message.node)
            case PodLifecycle():
                self._pod(message)
            case SchedulingRequest(withdrawn=True):
                self.waiting.pop(message.pod.uid, None)
            case SchedulingRequest():
                self.waiting[message.pod.uid] = message
            case _:
                key = _key(message.model_dump())
                self.others.pop(key, None)
                if not message.removed:
                    self.others[key] = message
                    self._listed.get(topic, set()).add(key)

    def _pod(self, message: PodLifecycle) -> None:
        pod = message.pod
        if message.event in ("finished", "deleted"):
            self.pods.pop(pod.uid, None)
            self.waiting.pop(pod.uid, None)
            return
        self._listed.get("pod-lifecycle", set()).add(pod.uid)
        if pod.node is not None:
            self.pods[pod.uid] = message
            self.waiting.pop(pod.uid, None)

    def _end(self, topic: str, end: ListEnd) -> None:
        listed = self._listed.pop(topic)
        if topic == "node-state":
            self.nodes = {name: node for name, node in self.nodes.items() if name in listed}
            return
        self.full_lists += 1
        self.pods = {uid: pod for uid, pod in self.pods.items() if uid in listed}
        self.waiting = {uid: request for uid, request in self.waiting.items() if uid in listed}
        self.others = {
            key: record
            for key, record in self.others.items()
            if key[0] not in end.kinds or key in listed
        }

    def summary(self) -> dict[str, Any]:
        """Return a summary to compare with `expected`."""
        return {
            "nodes": {name: (node.labels, node.allocatable) for name, node in self.nodes.items()},
            "pods": {uid: (pod.pod.node, pod.pod.labels) for uid, pod in self.pods.items()},
            "waiting": {uid: request.pod.labels for uid, request in self.waiting.items()},
            "others": sorted(self.others),
        }

    def of(self, topic: str) -> list[Any]:
        """Return the messages of a topic."""
        return [message for name, message in self.messages if name == topic]

    def events(self, name: str) -> list[str]:
        """Return the events of a pod: lifecycle events, `asked` and `withdrawn`."""
        events = []
        for topic, message in self.messages:
            if getattr(getattr(message, "pod", None), "name", None) != name:
                continue
            if topic == "pod-lifecycle":
                events.append(message.event)
            else:
                events.append("withdrawn" if message.withdrawn else "asked")
        return events


def _key(values: Mapping[str, Any]) -> tuple[str, ...]:
    if values["kind"] == "workload":
        return "workload", values["uid"]
    return values["kind"], values.get("namespace", ""), values["name"]


def expected(objects: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the summary of the objects of an API server, given by the path of each collection."""
    pods, waiting = {}, {}
    for pod in objects[PODS]:
        meta, spec = pod["metadata"], pod["spec"]
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        if spec.get("nodeName"):
            pods[meta["uid"]] = (spec["nodeName"], meta.get("labels", {}))
        elif (
            spec["schedulerName"] == "loadstream"
            and not spec.get("schedulingGates")
            and "deletionTimestamp" not in meta
        ):
            waiting[meta["uid"]] = meta.get("labels", {})
    others = [
        _key({"kind": kind.message.model_fields["kind"].default, **kind.identity(document)})
        for path, kind in KINDS.items()
        for document in objects[path]
        if kind.message is not NodeState and kind.values(document) is not None
    ]
    nodes = {
        node["metadata"]["name"]: (
            node["metadata"].get("labels", {}),
            node["status"].get("allocatable", {}),
        )
        for node in objects["/api/v1/nodes"]
    }
    return {"nodes": nodes, "pods": pods, "waiting": waiting, "others": sorted(others)}


class Reader:
    """Reads the messages of a watch like a process with duties; an asynchronous context manager."""

    def __init__(self, watch: KubernetesWatch, fold: Fold | None = None) -> None:
        self.watch = watch
        self.fold = fold or Fold()
        self.may_read = asyncio.Event()
        """While it is clear, nothing is taken."""
        self.may_read.set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _read(self) -> None:
        async for topic, message in self.watch.full_list(f"list-{self.fold.full_lists}"):
            self.fold.apply(topic, message)
        async for topic, message in self.watch.changes():
            self.fold.apply(topic, message)
            await self.may_read.wait()

    async def until(self, holds: Callable[[], bool], most_s: float = 60.0) -> None:
        """Read until the condition is true."""
        assert self._task is not None
        async with asyncio.timeout(most_s):
            while not holds():
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.01)
