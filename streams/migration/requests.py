"""Users' requests: migrate a pod, pause, resume or abort a migration, drain or undrain a node.

An invalid request becomes a dead letter with the reason. For a pod that must not be evicted, a failed
migration is reported, so that the user finds the reason in the status.
"""

from schemas.base.message import EPOCH_MS_MAX
from schemas.base.refusals import Refusal
from schemas.messages.migrations import DrainRow, MigrationRequest, MigrationRow
from schemas.messages.pods import Pod, PodRef
from schemas.policy.durations import format_duration_ms
from streams.migration.checks import UNRESERVABLE
from streams.migration.drains import Drains
from streams.migration.lifecycle import MigrationLifecycle
from streams.migration.registry import MIGRATIONS_MAX, Proposal, is_live
from streams.migration.tracking import PAUSED_MAX_MS
from streams.rebalance.candidates import Gate
from streams.stage.cause import Cause


class UserRequests:
    def __init__(self, lifecycle: MigrationLifecycle, drains: Drains) -> None:
        self.lifecycle = lifecycle
        self.drains = drains

    def apply(self, request: MigrationRequest, cause: Cause) -> Refusal | None:
        if not cause.now_ms:
            return _refuse(
                request,
                "the cluster has no log time yet; send the request again after a clock tick",
            )
        if request.action == "migrate":
            return self._migrate(request, cause)
        if request.action in ("drain", "undrain"):
            return self._drain(request, cause)
        row = self._find_row(request)
        if row is None:
            subject = request.migration_id or (request.pod.name if request.pod else None)
            if subject is None:
                return _refuse(request, "migration_id and pod are missing; give one of them")
            return _refuse(request, f"no migration of {subject} is under way")
        if request.action == "pause":
            return self._pause(row, request, cause)
        if request.action == "resume":
            return self._resume(row, request, cause)
        message = _describe_result("aborted", row, request)
        self.lifecycle.finish(row, cause, "Aborted", "Aborted", message)
        return None

    def _find_row(self, request: MigrationRequest) -> MigrationRow | None:
        registry = self.lifecycle.registry
        row = None
        if request.migration_id is not None:
            row = registry.get(request.migration_id)
        elif request.pod is not None:
            row = registry.find_by_pod(request.pod.uid)
        return row if row is not None and is_live(row) else None

    def _migrate(self, request: MigrationRequest, cause: Cause) -> Refusal | None:
        lifecycle = self.lifecycle
        if request.pod is None:
            return _refuse(request, "pod is missing")
        node_and_held = lifecycle.inventory.find_held(request.pod.uid)
        if node_and_held is None or node_and_held[1].pod.node is None:
            return _refuse(request, f"pod {request.pod.name} is not known to run on a node")
        node, held = node_and_held
        obstacle = self._find_obstacle(request.pod, held.pod, cause.now_ms)
        if obstacle is not None:
            return _refuse(request, obstacle)
        if len(lifecycle.registry) >= MIGRATIONS_MAX:
            text = f"{MIGRATIONS_MAX} migrations are under way, which is the limit"
            return Refusal("limit", text)
        proposal = Proposal(
            pod=held.pod,
            node=node.name,
            reason=request.reason,
            trigger="request",
            mode=request.mode,
            ttl_ms=request.ttl_ms,
            ignore_windows=request.ignore_windows,
        )
        gate = lifecycle.gates.check_lasting(held, node.name, cause.now_ms)
        mode = lifecycle.gates.choose_mode(held, request.mode)
        if isinstance(mode, Gate):
            gate, mode = gate or mode, "EvictDirectly"
        if gate is None:
            lifecycle.create(proposal, mode, cause)
            return None
        failed = lifecycle.build_row(proposal, mode, cause, phase="Failed")
        is_forbidden = gate.name != UNRESERVABLE
        reason = "ForbiddenMigratePod" if is_forbidden else "FailedCreateReservation"
        values = {"reason": reason, "message": gate.text}
        lifecycle.report(failed.model_copy(update=values), cause)
        return None

    def _find_obstacle(self, requested: PodRef, pod: Pod, now_ms: int) -> str | None:
        """Return why a pod cannot be migrated on request; None if it can."""
        if (requested.namespace, requested.name) != (pod.namespace, pod.name):
            return (
                f"uid {pod.uid} is that of pod {pod.namespace}/{pod.name}, not of "
                f"{requested.namespace}/{requested.name}; give the uid of {requested.namespace}/{requested.name}"
            )
        migration = self.lifecycle.registry.find_by_pod(pod.uid)
        if migration is not None:
            return _explain_existing(migration, now_ms)
        migration = self.lifecycle.registry.find_by_replacement(pod.uid)
        if migration is not None and is_live(migration):
            return (
                f"pod {pod.name} is the replacement in migration {migration.migration_id}, which is "
                "under way; wait for its end, or abort it first"
            )
        return None

    def _drain(self, request: MigrationRequest, cause: Cause) -> Refusal | None:
        if request.node is None:
            return _refuse(request, "node is missing")
        if request.action == "undrain":
            obstacle = self.drains.end(request.node, cause)
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
            obstacle = self.drains.begin(row, cause)
        return None if obstacle is None else _refuse(request, obstacle)

    def _pause(self, row: MigrationRow, request: MigrationRequest, cause: Cause) -> Refusal | None:
        if row.paused:
            return _refuse(request, f"migration {row.migration_id} is already paused")
        message = _describe_result("paused", row, request)
        self.lifecycle.advance(
            row, cause, paused=True, paused_at_ms=cause.now_ms, message=message, gate=""
        )
        return None

    def _resume(self, row: MigrationRow, request: MigrationRequest, cause: Cause) -> Refusal | None:
        if row.paused_at_ms is None:
            return _refuse(request, f"migration {row.migration_id} is not paused")
        paused_ms = min(cause.now_ms - row.paused_at_ms, PAUSED_MAX_MS)
        row = self.lifecycle.advance(
            row, cause,
            paused=False, paused_at_ms=None, message="resumed on request", gate="",
            deadline_ms=min(row.deadline_ms + paused_ms, EPOCH_MS_MAX),
        )  # fmt: skip
        self.lifecycle.rooms.extend(row)
        return None


def _describe_result(result: str, row: MigrationRow, request: MigrationRequest) -> str:
    text = f"{result} on request{f': {request.reason}' if request.reason else ''}"
    if row.command_expires_at_ms is None:
        return text
    return f"{text}; its command was sent before and may still be carried out"


def _explain_existing(row: MigrationRow, now_ms: int) -> str:
    subject = f"migration {row.migration_id} of pod {row.pod.name}"
    if is_live(row) or row.command_expires_at_ms is None:
        return f"{subject} is under way"
    wait = format_duration_ms(max(0, row.command_expires_at_ms - now_ms))
    return (
        f"{subject} has ended ({row.phase}), but its command may still be carried out for {wait}; "
        "send the request again after that"
    )


def _refuse(request: MigrationRequest, reason: str) -> Refusal:
    return Refusal("invalid", f"request {request.request_id} to {request.action}: {reason}")
