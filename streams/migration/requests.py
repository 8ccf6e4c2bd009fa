"""What users ask for: migrate a pod, pause, resume or abort a migration, drain a node.

A request for something that does not exist, or that cannot be done now, is refused with a sentence.
A pod that must not be evicted gets a migration that fails at once, so that the answer is where all
answers are.
"""

from collections.abc import Callable

from schemas.base.message import EPOCH_MS_MAX
from schemas.base.refusals import Refusal
from schemas.messages.migrations import DrainRow, MigrationRequest, MigrationRow
from schemas.messages.pods import Pod, PodRef
from schemas.policy.durations import format_duration_ms
from streams.migration.drains import Drains
from streams.migration.gates.checks import UNRESERVABLE, pool_of
from streams.migration.lifecycle import MigrationLifecycle
from streams.migration.proposal import Proposal
from streams.migration.registry import MIGRATIONS_MAX, live
from streams.migration.tracking import PAUSED_MAX_MS
from streams.rebalance.candidates import Gate
from streams.stage.cause import Cause


class Requests:
    """Answers users' requests of one cluster."""

    def __init__(self, lifecycle: MigrationLifecycle, drains: Drains) -> None:
        self.lifecycle = lifecycle
        self.drains = drains

    def apply(self, request: MigrationRequest, cause: Cause) -> Refusal | None:
        """Do what is asked for; answers why not."""
        if not cause.now_ms:
            return _refused(request, "the cluster has no time yet: its clock has not ticked")
        if request.action == "migrate":
            return self._migrate(request, cause)
        if request.action in ("drain", "undrain"):
            return self._drain(request, cause)
        row = self._meant(request)
        if row is None:
            what = request.migration_id or (request.pod.name if request.pod else None)
            if what is None:
                return _refused(request, "migration_id and pod are missing; allowed is one of them")
            return _refused(request, f"no migration of {what} is under way")
        act: dict[str, Callable[[MigrationRow, MigrationRequest, Cause], Refusal | None]] = {
            "pause": self._pause,
            "resume": self._resume,
            "abort": self._abort,
        }
        return act[request.action](row, request, cause)

    def _meant(self, request: MigrationRequest) -> MigrationRow | None:
        registry = self.lifecycle.registry
        row = None
        if request.migration_id is not None:
            row = registry.get(request.migration_id)
        elif request.pod is not None:
            row = registry.of_pod(request.pod.uid)
        return row if row is not None and live(row) else None

    def _migrate(self, request: MigrationRequest, cause: Cause) -> Refusal | None:
        lifecycle = self.lifecycle
        if request.pod is None:
            return _refused(request, "pod is missing")
        found = lifecycle.inventory.held(request.pod.uid)
        if found is None or found[1].pod.node is None:
            return _refused(request, f"pod {request.pod.name} is not known to run on a node")
        node, held = found
        why = self._hindered(request.pod, held.pod, cause.now_ms)
        if why is not None:
            return _refused(request, why)
        if len(lifecycle.registry) >= MIGRATIONS_MAX:
            return Refusal("limit", f"{MIGRATIONS_MAX} migrations are under way; no more may be")
        proposal = Proposal(
            pod=held.pod,
            node=node.name,
            pool=pool_of(lifecycle.policy, node),
            reason=request.reason,
            trigger="request",
            mode=request.mode,
            ttl_ms=request.ttl_ms,
            ignore_windows=request.ignore_windows,
        )
        gate = lifecycle.gates.forbidden(held, node.name, cause.now_ms)
        mode = lifecycle.gates.mode_of(held, request.mode)
        if isinstance(mode, Gate):
            gate, mode = gate or mode, "EvictDirectly"
        if gate is None:
            lifecycle.create(proposal, mode, cause)
            return None
        failed = lifecycle.new(proposal, mode, cause, phase="Failed")
        reserves = gate.name != UNRESERVABLE
        reason = "ForbiddenMigratePod" if reserves else "FailedCreateReservation"
        values = {"reason": reason, "message": gate.text}
        lifecycle.report(failed.model_copy(update=values), cause)
        return None

    def _hindered(self, asked: PodRef, pod: Pod, now_ms: int) -> str | None:
        """Why a pod that is there has no migration on request; None: it may have one."""
        if (asked.namespace, asked.name) != (pod.namespace, pod.name):
            return (
                f"uid {pod.uid} is that of pod {pod.namespace}/{pod.name}, not of "
                f"{asked.namespace}/{asked.name}; give the pod's own"
            )
        under_way = self.lifecycle.registry.of_pod(pod.uid)
        if under_way is not None:
            return _has_one(under_way, now_ms)
        replaced = self.lifecycle.registry.of_replacement(pod.uid)
        if replaced is not None and live(replaced):
            return (
                f"pod {pod.name} replaces a pod of migration {replaced.migration_id}, which is under "
                "way; wait for its end, or abort it first"
            )
        return None

    def _drain(self, request: MigrationRequest, cause: Cause) -> Refusal | None:
        if request.node is None:
            return _refused(request, "node is missing")
        if request.action == "undrain":
            why = self.drains.end(request.node, cause)
        else:
            row = DrainRow(
                cluster=request.cluster,
                node=request.node,
                request_id=request.request_id,
                since_ms=cause.now_ms,
                reason=request.reason,
                mode=request.mode,
                ttl_ms=request.ttl_ms,
                ignore_windows=request.ignore_windows,
            )
            why = self.drains.begin(row, cause)
        return None if why is None else _refused(request, why)

    def _pause(self, row: MigrationRow, request: MigrationRequest, cause: Cause) -> Refusal | None:
        if row.paused:
            return _refused(request, f"migration {row.migration_id} is paused already")
        message = _done("paused", row, request)
        self.lifecycle.advance(
            row, cause, paused=True, paused_at_ms=cause.now_ms, message=message, gate=""
        )
        return None

    def _resume(self, row: MigrationRow, request: MigrationRequest, cause: Cause) -> Refusal | None:
        if row.paused_at_ms is None:
            return _refused(request, f"migration {row.migration_id} is not paused")
        longer_ms = min(cause.now_ms - row.paused_at_ms, PAUSED_MAX_MS)
        row = self.lifecycle.advance(
            row, cause,
            paused=False, paused_at_ms=None, message="resumed on request", gate="",
            deadline_ms=min(row.deadline_ms + longer_ms, EPOCH_MS_MAX),
        )  # fmt: skip
        self.lifecycle.held_room.prolong(row)
        return None

    def _abort(self, row: MigrationRow, request: MigrationRequest, cause: Cause) -> Refusal | None:
        message = _done("aborted", row, request)
        self.lifecycle.finish(row, cause, "Aborted", "Aborted", message)
        return None


def _done(what: str, row: MigrationRow, request: MigrationRequest) -> str:
    """What was done on a request, and what may happen all the same."""
    text = f"{what} on request{f': {request.reason}' if request.reason else ''}"
    if row.command_expires_at_ms is None:
        return text
    return f"{text}; its command is out and may still be carried out"


def _has_one(row: MigrationRow, now_ms: int) -> str:
    """That a pod has a migration, which may have ended while its command is alive."""
    what = f"migration {row.migration_id} of pod {row.pod.name}"
    if live(row) or row.command_expires_at_ms is None:
        return f"{what} is under way"
    wait = format_duration_ms(max(0, row.command_expires_at_ms - now_ms))
    return (
        f"{what} has ended ({row.phase}), but its command may still be carried out for {wait}; "
        "ask again then"
    )


def _refused(request: MigrationRequest, why: str) -> Refusal:
    return Refusal("invalid", f"request {request.request_id} to {request.action}: {why}")
