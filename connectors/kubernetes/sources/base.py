"""Base class of the usage sources of a real cluster."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeVar

from pydantic import ValidationError

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sources.directory import Directory
from connectors.kubernetes.sources.health import SourceFailed, SourceHealth
from connectors.kubernetes.sources.settings import SourceSettings
from connectors.process.wall_clock import now_ms
from schemas.base.contract import build_schema
from schemas.base.validation_errors import describe_errors
from schemas.messages.metrics import NodeMetric
from schemas.messages.usage import MemoryDefinition, NodeUsage

S = TypeVar("S", bound=SourceSettings)
M = TypeVar("M", NodeUsage, NodeMetric)


@dataclass(frozen=True, slots=True)
class SourceContext:
    """Connections and clock that all sources of one cluster use."""

    cluster: str
    server: ApiServer
    directory: Directory
    now_ms: Callable[[], int] = now_ms


class KubernetesSource(ABC, Generic[S]):
    """Measures nodes of one cluster.

    A source yields new measurements, with their own times. It leaves out nodes that cannot be read, and
    resources and pods that were not measured: missing data becomes stale, while a zero would count as a
    measurement. Only the newest measurement of each node is kept, so a slow reader causes no queue.
    """

    name: ClassVar[str]
    """Name in the registry."""
    topic: ClassVar[Literal["node-usage", "node-metrics"]] = "node-usage"
    """Topic of its messages: samples, or aggregates that were computed elsewhere."""
    settings_class: ClassVar[type[SourceSettings]]
    memory_is: MemoryDefinition | None = "workingSet"
    """Definition of its memory figures; None: unknown."""
    needs_pods: ClassVar[bool] = True
    """Its pods have no uids, so the directory must follow pods."""

    def __init__(self, settings: S, context: SourceContext) -> None:
        self.settings = settings
        self.context = context
        self.cluster = context.cluster
        self.directory = context.directory
        self.interval_s = settings.interval_ms / 1_000
        """Time between two calls of `read`, in seconds."""
        self.health = SourceHealth(settings.label, context.now_ms)

    async def run(self) -> None:  # most sources have nothing to do
        """Work between readings, until it is cancelled; by default nothing."""

    @abstractmethod
    def read(self) -> AsyncIterator[NodeUsage | NodeMetric]:
        """Yield the measurements since the last call, those of each node in order of time.

        A node that cannot be read raises no exception. Raises OSError if nothing can be read.
        """

    def is_listed(self) -> bool:
        """Tell whether the directory has the nodes, and the pods if this source needs them."""
        directory = self.directory
        return directory.nodes_listed and (directory.pods_listed or not self.needs_pods)

    def require_listed(self) -> None:
        """Raise SourceFailed until the directory is complete."""
        if not self.is_listed():
            collections = "nodes and pods" if self.needs_pods else "nodes"
            why = f": {self.directory.failing}" if self.directory.failing else ""
            raise SourceFailed("incomplete", f"{collections} have not been listed yet{why}")


class NewestMessages(Generic[M]):
    """The newest unread message of each node; replaced messages are counted."""

    def __init__(self, health: SourceHealth) -> None:
        self._health = health
        self._unread: dict[str, M] = {}

    def put(self, message: M) -> None:
        if self._unread.pop(message.node, None) is not None:
            self._health.counts["overwritten"] += 1
        self._unread[message.node] = message

    async def read(self) -> AsyncIterator[M]:
        """Yield the unread messages in the order of arrival."""
        unread, self._unread = self._unread, {}
        for message in unread.values():
            yield message


def explain_error(error: Exception, message: type[NodeUsage] | type[NodeMetric]) -> str:
    """Return in one line why a message is invalid: what was found, and what is allowed."""
    if isinstance(error, ValidationError):
        return describe_errors(error, build_schema(message))
    # Our own errors are sentences.
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
