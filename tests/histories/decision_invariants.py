"""What must hold of each decision and command when it is made.

`cluster` is the model of the inputs and outputs before the decision; `model.stage` has applied the
record that caused the decision.
"""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from schemas.base.message import EPOCH_MS_MAX
from schemas.messages.commands import EvictionCommand
from schemas.messages.decisions import PlacementDecision
from schemas.messages.migrations import MigrationStatus
from schemas.messages.rounds import RebalanceRound
from streams.cluster.state import ClusterState
from tests.histories.failure import require
from tests.histories.model import ClusterModel, Model


def check_unique_id(model: Model, message: Any) -> None:
    """No two decisions or commands have the same id."""
    id_ = message.command_id if isinstance(message, EvictionCommand) else message.decision_id
    require(id_ not in model.ids, "two decisions have the same id", id_)


def check_decided_again(
    cluster: ClusterModel, state: ClusterState, decision: PlacementDecision
) -> None:
    """A placed pod waits again only after its reservation has expired or its binding has failed."""
    placed = cluster.reserved.get(decision.pod.uid)
    if placed is not None and decision.waits:
        is_over = (placed.expires_at_ms or 0) <= decision.decided_at_ms
        require(is_over, "a placed pod waits again without a reason", decision)


def check_figures(cluster: ClusterModel, state: ClusterState, decision: PlacementDecision) -> None:
    """The figures by which a decision explains itself add up."""
    refused = sum(decision.refused_by.values())
    require(decision.stale_nodes <= decision.nodes, "more nodes are stale than there are", decision)
    require(refused <= decision.nodes, "more nodes refuse a pod than there are", decision)
    if decision.outcome == "waiting":
        reasons = sum(reason.nodes for reason in decision.reasons)
        require(reasons == refused, "the reasons are not those of the refusals", decision)
        require(decision.attempt > 0, "a failed attempt is not counted", decision)


# --- placements -----------------------------------------------------------------------------------------


def check_placed_while_paused(
    cluster: ClusterModel, state: ClusterState, placed: PlacementDecision
) -> None:
    """No pod is placed while the cluster is paused."""
    require(not cluster.paused, "a pod is placed while the cluster is paused", placed.pod)


def check_placed_once(
    cluster: ClusterModel, state: ClusterState, placed: PlacementDecision
) -> None:
    """A pod that has a node is not placed again."""
    uid = placed.pod.uid
    require(uid not in cluster.reserved, "a pod is placed twice", placed)
    require(uid not in cluster.running, "a pod that runs is placed", placed)


def check_reservation(
    cluster: ClusterModel, state: ClusterState, placed: PlacementDecision
) -> None:
    """A placed pod takes room on its node, until the time that the decision names."""
    held = state.inventory.find_held(placed.pod.uid)
    same = held and (held[0].name, held[1].expires_at_ms) == (placed.node, placed.expires_at_ms)
    require(bool(same), "a placed pod takes no room", placed)


def check_scores(cluster: ClusterModel, state: ClusterState, placed: PlacementDecision) -> None:
    """A placed pod goes to the winner, and totals are sums of terms.

    No runner-up surpasses the winner, unless a migration holds room on it for the pod.
    """
    require(placed.winner is not None and placed.winner.node == placed.node, "no winner", placed)
    scores = [score for score in (placed.winner, *placed.runners_up) if score is not None]
    totals = [score.total for score in scores]
    if all(migration.target_node != placed.node for migration in cluster.migrations.values()):
        require(totals == sorted(totals, reverse=True), "a runner-up surpasses the winner", placed)
    for score in scores:
        total = sum(term.score * term.weight for term in score.terms)
        require(score.total == total, "a score is not the sum of its terms", placed)


def check_left_hot(cluster: ClusterModel, state: ClusterState, placed: PlacementDecision) -> None:
    """No pod is placed on a node that its owner left because it was hot, if another node accepts it."""
    held = state.inventory.find_held(placed.pod.uid)
    if held:
        owner = held[1].pod.owner_key
        moves = state.memory.moves
        avoided = moves.find_avoided(owner, placed.decided_at_ms)
        if placed.node in avoided:
            # A tick places pods before its round decides which pods leave.
            left_since = [
                move.left_at_ms for move in moves.rows[owner].moves if move.source == placed.node
            ]
            returned = min(left_since) < placed.decided_at_ms
            returned = returned and "no other node accepts the pod" not in placed.message
            require(not returned, "a pod returns to a node that it left hot", placed)


def check_drained(cluster: ClusterModel, state: ClusterState, placed: PlacementDecision) -> None:
    """No pod without tolerations is placed on a node that is drained."""
    held = state.inventory.find_held(placed.pod.uid)
    drain = state.migrations.drains.rows.get(placed.node or "")
    if held and not held[1].pod.tolerations and cluster.filters_by("NodeUnschedulable"):
        drained = drain is not None and not drain.dry_run
        require(not drained, "a pod is placed on a node that is drained", placed)


def check_room(cluster: ClusterModel, state: ClusterState, placed: PlacementDecision) -> None:
    """The requests of a placed pod fit beside those of the pods on its node."""
    node = placed.node or ""
    allocatable = cluster.allocatable.get(node)
    if allocatable is None or not cluster.filters_by("NodeResourcesFit"):
        return
    requests = cluster.requests.get(placed.pod.uid, {})
    pods = cluster.get_pods_on(node) | {placed.pod.uid: requests}
    used = Counter[str]({"pods": len(pods)})
    for amounts in pods.values():
        used.update(amounts)
    for resource in ("pods", *(name for name, amount in requests.items() if amount)):
        room = allocatable.get(resource, 0)
        detail = f"{used[resource]} {resource} of {room} on {node}"
        require(used[resource] <= room, "a node is over-reserved", detail)


# --- evictions ------------------------------------------------------------------------------------------


def check_mode(cluster: ClusterModel, state: ClusterState, command: EvictionCommand) -> None:
    """A command is dry unless the policy enforces; a paused cluster gives no commands."""
    require(not cluster.paused, "a command is given while the cluster is paused", command)
    is_allowed = command.dry_run or cluster.policy.mode == "enforce"
    require(is_allowed, "a command is not dry while the cluster observes", command)


def check_lifetime(cluster: ClusterModel, state: ClusterState, command: EvictionCommand) -> None:
    """A command can still be carried out when it is given."""
    is_last_ms = command.decided_at_ms == EPOCH_MS_MAX
    lives = command.expires_at_ms > command.decided_at_ms
    require(lives or is_last_ms, "a command has expired when it is given", command)


def check_commanded_once(
    cluster: ClusterModel, state: ClusterState, command: EvictionCommand
) -> None:
    """A pod has one command at a time, and is on the node that its command names."""
    uid = command.pod.uid
    require(uid not in cluster.commands, "a pod has two commands at a time", command)
    reservation = state.inventory.find_held(uid)
    is_there = reservation is not None and reservation[0].name == command.node
    require(is_there, "a command is for a pod that is not there", command)


def check_attempts(cluster: ClusterModel, state: ClusterState, command: EvictionCommand) -> None:
    """The commands of a migration are numbered."""
    number = cluster.commands_of[command.migration_id or ""] + 1
    require(command.attempt == number, "a command of a migration is not counted", command)


def check_rate(cluster: ClusterModel, state: ClusterState, command: EvictionCommand) -> None:
    """Commands stay within evictQPS and evictBurst, in each window that ends now."""
    args = cluster.policy.migration
    per_second = Fraction(str(args.evict_qps))
    # A bucket keeps what accrues in a second, even if the burst is smaller.
    burst = max(Fraction(args.evict_burst), per_second)
    now_ms = command.decided_at_ms
    times_ms = [now_ms, *reversed(cluster.command_times_ms)]
    for count, start_ms in enumerate(times_ms, start=1):
        allowed = burst + per_second * Fraction(now_ms - start_ms, 1_000)
        detail = f"{count} commands in {now_ms - start_ms} ms"
        require(count <= allowed, "evictQPS and evictBurst are exceeded", detail)


def check_budgets(cluster: ClusterModel, state: ClusterState, command: EvictionCommand) -> None:
    """Commands stay within the disruption budgets of their pod."""
    if command.dry_run or command.policy != "Eviction":
        return
    for budget, commanded in cluster.get_budgets(command.pod.uid):
        count = 1 + len(commanded & cluster.commands.keys())
        is_within = count <= budget.disruptions_allowed
        require(is_within, "a disruption budget is exceeded", f"{count}: {budget}")


# --- migrations, rounds -----------------------------------------------------------------------------------


def check_finished(
    cluster: ClusterModel, state: ClusterState, output: MigrationStatus | EvictionCommand
) -> None:
    """A migration that has finished changes no more, and evicts nothing."""
    goes_on = output.migration_id in cluster.finished
    require(not goes_on, "a migration goes on after its end", output)


def check_target(cluster: ClusterModel, state: ClusterState, status: MigrationStatus) -> None:
    """A migration leads to another node."""
    moves = status.target_node != status.source_node
    require(moves, "the target of a migration is its source", status)


def check_attempts_reported(
    cluster: ClusterModel, state: ClusterState, status: MigrationStatus
) -> None:
    """A migration reports the commands that were given for it."""
    commands = cluster.commands_of[status.migration_id]
    require(status.attempts == commands, "a command of a migration is not counted", status)


def check_concurrency(cluster: ClusterModel, state: ClusterState, status: MigrationStatus) -> None:
    """No migration begins while as many are under way as the policy allows at once."""
    if status.phase != "Running" or status.dry_run or status.migration_id in cluster.begun:
        return
    args, others = cluster.policy.migration, cluster.migrations.values()
    counts: tuple[tuple[str, Any, Callable[[MigrationStatus], bool]], ...] = (
        ("MaxMigratingGlobally", args.max_migrating_globally, lambda other: True),
        ("MaxMigratingPerNode", args.max_migrating_per_node,
         lambda other: other.source_node == status.source_node),
        ("MaxMigratingPerNamespace", args.max_migrating_per_namespace,
         lambda other: other.pod.namespace == status.pod.namespace),
        ("MaxMigratingPerWorkload", args.max_migrating_per_workload,
         lambda other: other.owner == status.owner),
    )  # fmt: skip
    for name, limit, counts_other in counts:
        if isinstance(limit, int) and limit and name not in args.skip_eviction_gates:
            count = 1 + sum(map(counts_other, others))
            require(count <= limit, f"{name} is exceeded", f"{count} of {limit}: {status}")


def check_hot_rounds(cluster: ClusterModel, state: ClusterState, round_: RebalanceRound) -> None:
    """The rounds in a row in which a node is hot are counted, and a calm round ends the row."""
    if cluster.policy.compat == "koordinator":
        return  # Koordinator counts rounds that are not in a row
    for pool in round_.pools:
        before = cluster.hot_rounds.get(pool.pool)
        if before is None:
            continue
        for hot in pool.hot:
            rounds = before.get((hot.node, hot.phase), 0)
            is_counted = hot.abnormal_rounds <= rounds + 1
            require(is_counted, "hot rounds of a node are counted wrongly", f"{rounds}, then {hot}")


DECISION = (check_decided_again, check_figures)
PLACEMENT = (
    check_placed_while_paused, check_placed_once, check_reservation, check_drained, check_room,
    check_figures, check_scores, check_left_hot,
)  # fmt: skip
EVICTION = (
    check_mode,
    check_lifetime,
    check_commanded_once,
    check_attempts,
    check_rate,
    check_budgets,
    check_finished,
)
MIGRATION = (check_finished, check_target, check_attempts_reported, check_concurrency)
ROUND = (check_hot_rounds,)
