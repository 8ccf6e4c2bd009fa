"""Which pods a round may move, and where: the rules of migrations, earlier moves and exclusions."""

from collections.abc import Collection

from streams.migration.migrations import Migrations
from streams.migration.registry import is_live
from streams.moves.memory import MoveMemory
from streams.placement.exclusions import Exclusions
from streams.pods.held import Held
from streams.rebalance.candidates import Candidate, Gate, Rules
from streams.stage.arrays import BoolArray
from streams.stage.cause import Cause


class RoundRules(Rules):
    """The rules of one round; `gate` starts the migration of a pod that passes it."""

    def __init__(
        self, migrations: Migrations, memory: MoveMemory, exclusions: Exclusions, cause: Cause
    ) -> None:
        self._migrations, self._memory, self._cause = migrations, memory, cause
        self._exclusions = exclusions
        rows = migrations.lifecycle.registry
        self.leaving = frozenset(row.pod.uid for row in rows if is_live(row))

    def explain_protection(self, held: Held) -> str | None:
        """Why a pod may never be evicted; None: it may."""
        return self._migrations.explain_protection(held)

    def list_avoided_nodes(self, held: Held) -> Collection[str]:
        """Nodes that the pod's owner left and that have not cooled, and whose pods keep it away."""
        return self._exclusions.list_names(held.pod, self._cause.now_ms)

    def list_cooling_nodes(self) -> Collection[str]:
        """Nodes that moves have left and that have not cooled."""
        return self._memory.moves.list_cooling(self._cause.now_ms)

    def explain_rest(self, held: Held, node: str, rest_ms: int) -> str | None:
        """Why a pod that came by a move lately is not moved on; None: it may be."""
        owner, now_ms = held.pod.owner_key, self._cause.now_ms
        return self._memory.moves.explain_rest(owner, node, held.assigned_at_ms, rest_ms, now_ms)

    def find_refusing_nodes(self, held: Held) -> BoolArray | None:
        """Rows of nodes that placement refuses a pod like this."""
        return self._migrations.find_refusing_nodes(held.pod)

    def hold_back(self, held: Held, node: str, pool: str) -> Gate | None:
        """Whether the pod's owner is frozen, or a migration would be stopped."""
        why = self._memory.moves.explain_freeze(held.pod.owner_key, self._cause.now_ms)
        if why is not None:
            return Gate("RecentMoves", why)
        return self._migrations.hold_back(held, node, pool, self._cause.now_ms)

    def gate(self, candidate: Candidate) -> Gate | None:
        """Propose a migration of the pod; return what stops it."""
        return self._migrations.propose(candidate, self._cause)
