"""Health of a usage source, for logs and metrics.

Per node: the last success, the last failure with its cause, and the skew of the node's clock. Per source:
failures by cause, and notes. Times are those of the collector's clock. A failure does not become a
message; the node's data becomes stale.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

logger = logging.getLogger(__name__)

Cause = Literal[
    "unreachable",    # no connection, or it broke
    "timeout",        # no answer in time
    "certificate",    # the server's certificate is not trusted
    "credentials",    # 401, or the credentials cannot be read
    "forbidden",      # 403
    "not_installed",  # 404
    "throttled",      # 429
    "server_error",   # 5xx
    "refused",        # any other status
    "no_address",     # the node has no address of a configured type
    "too_large",      # the answer exceeds the limit
    "unreadable",     # the answer is invalid
    "incomplete",     # the answer is partial, or lacks the node itself
    "impossible",     # usage above the node's capacity, or no memory at all
]  # fmt: skip

#: Longest kept sentence of a failure.
WHY_MAX = 300
#: A failure of a node is logged at most once in this time for each cause, in ms.
LOG_EVERY_MS = 60_000
#: Largest clock skew that is not reported, in ms. `Date` has whole seconds, and answers take time.
SKEW_MAX_MS = 5_000


class SourceFailed(OSError):
    """A source or one of its nodes could not be read; the message is a sentence with the reason."""

    def __init__(self, cause: Cause, why: str) -> None:
        super().__init__(why)
        self.cause: Cause = cause


@dataclass(frozen=True, slots=True)
class Failure:
    cause: Cause
    why: str
    at_ms: int


@dataclass(slots=True)
class NodeHealth:
    node: str
    succeeded_at_ms: int | None = None
    """Time of the last successful reading; None: there was none."""
    failure: Failure | None = None
    """Why the last attempt failed; None: it succeeded."""
    clock_skew_ms: int | None = None
    """The node's clock minus ours; None: unknown."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """Health of one source at a moment."""

    source: str
    failure: Failure | None
    """Why nothing can be read now; None: something can be read."""
    notes: tuple[str, ...]
    """Other problems, in sentences."""
    failures: Mapping[Cause, int]
    """Number of failed attempts by cause."""
    counts: Mapping[str, int]
    """Other counters: samples, skipped, overwritten ..."""
    nodes: tuple[NodeHealth, ...]
    behind_s: float = 0.0
    """How long the oldest node has waited to be polled, in seconds."""


class SourceHealth:
    """Records successes and failures of a source."""

    def __init__(self, source: str, now_ms: Callable[[], int]) -> None:
        self.source = source
        self.failures: Counter[Cause] = Counter()
        self.counts: Counter[str] = Counter()
        self._now_ms = now_ms
        self._nodes: dict[str, NodeHealth] = {}
        self._notes: dict[str, str] = {}
        self._failure: Failure | None = None
        self._logged_at_ms: dict[Cause, int] = {}
        """When a failure of a node was last logged, by cause."""
        self.behind_s = 0.0
        """How long the oldest node has waited to be polled, in seconds."""

    def record_success(self, node: str | None = None) -> None:
        """Record that a node (None: the source as a whole) was read."""
        if self._failure is not None:
            logger.info("%s: can be read again", self.source)
            self._failure = None
        if node is None:
            return
        health = self._node(node)
        health.failure = None
        health.succeeded_at_ms = self._now_ms()

    def record_failure(self, error: OSError, node: str | None = None) -> None:
        """Record that a node (None: the source as a whole) could not be read."""
        cause: Cause = error.cause if isinstance(error, SourceFailed) else "unreachable"
        self.failures[cause] += 1
        failure = Failure(cause, (str(error) or type(error).__name__)[:WHY_MAX], self._now_ms())
        if node is not None:
            self._node(node).failure = failure
            self._log(node, failure)
            return
        if self._failure is None or self._failure.cause != cause:
            logger.warning("%s: %s; trying again", self.source, failure.why)
        self._failure = failure

    def record_clock_skew(self, node: str, skew_ms: int | None) -> None:
        """Record the skew of a node's clock (None: unknown by its newest figures)."""
        health = self._node(node)
        previous_ms, health.clock_skew_ms = health.clock_skew_ms, skew_ms
        if abs(skew_ms or 0) > SKEW_MAX_MS >= abs(previous_ms or 0):
            logger.warning("%s: the clock of node %s is %d ms off", self.source, node, skew_ms)

    def set_note(self, about: str, sentence: str | None) -> None:
        """Set a note about a problem; None: the problem is over."""
        if sentence is None:
            self._notes.pop(about, None)
            return
        if self._notes.get(about) is None:
            logger.warning("%s: %s", self.source, sentence)
        self._notes[about] = sentence[:WHY_MAX]

    def keep_only(self, nodes: Collection[str]) -> None:
        """Forget all other nodes."""
        for node in self._nodes.keys() - set(nodes):
            del self._nodes[node]

    def is_failing(self, node: str) -> bool:
        """Tell whether the last attempt at this node failed."""
        health = self._nodes.get(node)
        return health is not None and health.failure is not None

    def report(self) -> SourceReport:
        """Return the current health; nodes are in the order of their names."""
        return SourceReport(
            source=self.source,
            failure=self._failure or self._find_common_failure(),
            notes=tuple(self._notes.values()),
            failures=dict(self.failures),
            counts=dict(self.counts),
            nodes=tuple(replace(node) for _, node in sorted(self._nodes.items())),
            behind_s=self.behind_s,
        )

    def _log(self, node: str, failure: Failure) -> None:
        """Log the number of failing nodes and an example of a cause, at most once per minute."""
        logged_at_ms = self._logged_at_ms.get(failure.cause)
        if logged_at_ms is None or failure.at_ms - logged_at_ms >= LOG_EVERY_MS:
            self._logged_at_ms[failure.cause] = failure.at_ms
            failing = sum(health.failure is not None for health in self._nodes.values())
            logger.warning(
                "%s: %d of %d nodes cannot be read, the newest %s: %s; trying again",
                self.source, failing, len(self._nodes), node, failure.why,
            )  # fmt: skip

    def _find_common_failure(self) -> Failure | None:
        """Return the newest failure of a node if no node can be read."""
        failures = [node.failure for node in self._nodes.values() if node.failure is not None]
        if not failures or len(failures) < len(self._nodes):
            return None
        return max(failures, key=lambda failure: failure.at_ms)

    def _node(self, node: str) -> NodeHealth:
        return self._nodes.setdefault(node, NodeHealth(node))
