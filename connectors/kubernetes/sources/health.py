"""How a usage source does: plain values, from which metrics and `cluster why-not` are fed.

Per node: the last success, the last failure with its cause, and how far the node's clock is off.
Per source: failures by cause, and what holds for the source as a whole. Times are those of the
collector's own clock. A failure never becomes a message: the node's data grows old, as it should.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

logger = logging.getLogger(__name__)

Cause = Literal[
    "unreachable",    # no connection, or it broke
    "timeout",        # no answer in time
    "certificate",    # the other side's certificate is not trusted
    "credentials",    # 401, or no credentials can be read
    "forbidden",      # 403
    "not_installed",  # 404: there is no such thing
    "throttled",      # 429
    "server_error",   # 5xx
    "refused",        # any other status
    "no_address",     # the node names no address that can be asked
    "too_large",      # the answer is over the limit
    "unreadable",     # the answer is not what it should be
    "incomplete",     # the answer lacks the node itself, or is a partial one
    "impossible",     # more was used than the node has, or no memory at all
]  # fmt: skip

#: Of a sentence of failure, what is kept.
WHY_MAX = 300
#: A source that was behind keeps up again once it has not been behind for so long, in ms: so that is
#: said at most once a minute.
SETTLED_MS = 60_000
#: A difference of clocks above this is reported, in ms. `Date` has whole seconds, and answers are on
#: the way for a while.
SKEW_MAX_MS = 5_000


class SourceFailed(OSError):
    """A source, or one node of it, could not be read; the message says why, in a sentence."""

    def __init__(self, cause: Cause, why: str) -> None:
        super().__init__(why)
        self.cause: Cause = cause


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of a node or of a whole source."""

    cause: Cause
    why: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """How one node does."""

    node: str
    succeeded_at_ms: int | None
    """When it was last read with success; none: never."""
    sampled_at_ms: int | None
    """Time of its newest measurement."""
    failure: Failure | None
    """Why it cannot be read now; none: the last attempt succeeded."""
    clock_skew_ms: int | None
    """The node's clock minus ours; none: not known."""
    times_from_receipt: bool
    """Its clock is so far off that its samples carry the time at which they were received."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """How one source does."""

    source: str
    succeeded_at_ms: int | None
    """When anything was last read with success."""
    failure: Failure | None
    """Why nothing can be read now; none: something can."""
    notes: tuple[str, ...]
    """What else a person should know, in sentences."""
    failures: Mapping[Cause, int]
    """How many attempts failed, by cause."""
    counts: Mapping[str, int]
    """What else was counted: samples, skipped, overwritten ..."""
    nodes: tuple[NodeHealth, ...]
    behind_s: float = 0.0
    """For how long the oldest node has waited to be asked, because more are due than can be."""


@dataclass(slots=True)
class _Node:
    succeeded_at_ms: int | None = None
    sampled_at_ms: int | None = None
    failure: Failure | None = None
    skew_ms: int | None = None
    from_receipt: bool = False


class SourceHealth:
    """Takes note of what a source meets."""

    def __init__(self, source: str, now_ms: Callable[[], int]) -> None:
        self.source = source
        self.failures: Counter[Cause] = Counter()
        self.counts: Counter[str] = Counter()
        self._now_ms = now_ms
        self._nodes: dict[str, _Node] = {}
        self._notes: dict[str, str] = {}
        self._failure: Failure | None = None
        self._failing: Counter[Cause] = Counter()
        """How many nodes cannot be read now, by cause."""
        self._newest: Failure | None = None
        """The last failure of a node."""
        self._said_at_ms: dict[Cause, int] = {}
        """When a failure of a node was logged last, by cause."""
        self._succeeded_at_ms: int | None = None
        self._behind_s = 0.0
        self._was_behind_at_ms = 0

    def record_success(self, node: str | None = None, sampled_at_ms: int | None = None) -> None:
        """A node was read, or the source as a whole; `sampled_at_ms`: the time of what was new."""
        self._succeeded_at_ms = self._now_ms()
        if self._failure is not None:
            logger.info("%s: it can be read again", self.source)
            self._failure = None
        if node is None:
            return
        known = self._node(node)
        self._set_failure(known, None)
        known.succeeded_at_ms = self._succeeded_at_ms
        if sampled_at_ms is not None:
            known.sampled_at_ms = sampled_at_ms

    def record_failure(self, error: OSError, node: str | None = None) -> None:
        """A node could not be read, or the source as a whole."""
        cause: Cause = error.cause if isinstance(error, SourceFailed) else "unreachable"
        self.failures[cause] += 1
        failure = Failure(cause, (str(error) or type(error).__name__)[:WHY_MAX], self._now_ms())
        if node is not None:
            known = self._node(node)
            before = known.failure
            self._set_failure(known, failure)
            if before is None or before.cause != cause:
                self._say(node, failure)
            return
        if self._failure is None or self._failure.cause != cause:
            logger.warning("%s: %s; it is tried again", self.source, failure.why)
        self._failure = failure

    def record_clock_skew(self, node: str, skew_ms: int | None, *, from_receipt: bool) -> None:
        """How far a node's clock is off, and whether its samples carry the time of receipt.

        None: its newest figures do not show it, so that an older finding does not hold any more.
        """
        known = self._node(node)
        known.skew_ms = skew_ms
        if from_receipt and not known.from_receipt:
            logger.warning(
                "%s: the clock of node %s is %d ms off; its samples carry the time of receipt",
                self.source, node, skew_ms,
            )  # fmt: skip
        known.from_receipt = from_receipt

    def set_note(self, about: str, sentence: str | None) -> None:
        """Something that a person should know; none: it is over."""
        if sentence is None:
            self._notes.pop(about, None)
            return
        if self._notes.get(about) is None:
            logger.warning("%s: %s", self.source, sentence)
        self._notes[about] = sentence[:WHY_MAX]

    def set_delay(self, seconds: float, allowed_s: float) -> None:
        """For how long the oldest node has waited to be asked; beyond what is allowed it is noted."""
        self._behind_s = seconds
        if seconds > allowed_s:
            self._was_behind_at_ms = self._now_ms()
            why = "more nodes are due than can be asked"
            self.set_note("behind", f"{why}: each in turn, the oldest {seconds:.0f} s late")
        elif "behind" in self._notes and self._now_ms() - self._was_behind_at_ms > SETTLED_MS:
            logger.info("%s: all nodes are asked in time again", self.source)
            self.set_note("behind", None)

    def keep_only(self, nodes: Collection[str]) -> None:
        """Forget the nodes that are no longer there."""
        for gone in self._nodes.keys() - set(nodes):
            self._set_failure(self._nodes.pop(gone), None)

    def is_failing(self, node: str) -> bool:
        """The last attempt at this node failed."""
        known = self._nodes.get(node)
        return known is not None and known.failure is not None

    def report(self) -> SourceReport:
        """Everything, as it is now; nodes in the order of their names."""
        return SourceReport(
            source=self.source,
            succeeded_at_ms=self._succeeded_at_ms,
            failure=self._failure or self._of_all_nodes(),
            notes=tuple(self._notes.values()),
            failures=dict(self.failures),
            counts=dict(self.counts),
            nodes=tuple(
                NodeHealth(
                    name, each.succeeded_at_ms, each.sampled_at_ms, each.failure, each.skew_ms,
                    each.from_receipt,
                )
                for name, each in sorted(self._nodes.items())
            ),
            behind_s=self._behind_s,
        )  # fmt: skip

    def _set_failure(self, known: _Node, failure: Failure | None) -> None:
        if known.failure is not None:
            self._failing[known.failure.cause] -= 1
        if failure is not None:
            self._failing[failure.cause] += 1
            self._newest = failure
        known.failure = failure

    def _say(self, node: str, failure: Failure) -> None:
        """Log a node that begins to fail, if no other fails by this cause; at most once a minute."""
        said_at_ms = self._said_at_ms.get(failure.cause)
        if self._failing[failure.cause] == 1 and (
            said_at_ms is None or failure.at_ms - said_at_ms >= SETTLED_MS
        ):
            self._said_at_ms[failure.cause] = failure.at_ms
            logger.warning("%s: node %s: %s; it is tried again", self.source, node, failure.why)

    def _of_all_nodes(self) -> Failure | None:
        """The last failure, where no node can be read; none: one can, or there are none."""
        return self._newest if self._nodes and self._failing.total() == len(self._nodes) else None

    def _node(self, node: str) -> _Node:
        known = self._nodes.get(node)
        if known is None:
            known = self._nodes[node] = _Node()
        return known
