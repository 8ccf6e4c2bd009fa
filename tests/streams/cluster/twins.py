"""Two stages over one log: one is never restored, the other one again and again, from its rows.

Rule 2 of the design says that rows are the state: both must write the same rows and say the same, byte for
byte, wherever the other one was restored and however the log was cut into batches. A test
hands records over in any pieces; at each `meet` everything up to there is compared. What a stage keeps
beside its rows and should not shows as a difference here, at once or in what comes next.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.storage.tables import is_of_cluster
from streams.cluster.stage import ClusterStage
from streams.stage.packing import apply_changes
from streams.stage.records import InputRecord, OutputRecord, StageResult


@dataclass
class Side:
    """A stage with what it has written and said."""

    partition: int = 0
    partitions: int = 1
    rows: dict[str, bytes] = field(default_factory=dict)
    """Table rows as a worker would find them, packed ones packed."""
    outputs: list[OutputRecord] = field(default_factory=list)
    dead_letters: list[OutputRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stage = ClusterStage(self.partition, self.partitions, self.recall)

    def recall(self, cluster: str) -> dict[str, bytes]:
        """The rows of a cluster, as a worker gives them to a stage."""
        return {
            key: value
            for key, value in self.rows.items()
            if is_of_cluster(key, self.partition, cluster)
        }

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply records as one batch."""
        result = self.stage.apply(records)
        apply_changes(self.rows, result.rows)
        self.outputs += result.outputs
        self.dead_letters += result.dead_letters
        return result

    def restore(self, order: random.Random | None = None) -> None:
        """Go on with a stage that is put together from the rows, in a random order if one is given."""
        rows = list(self.rows.items())
        if order is not None:
            order.shuffle(rows)
        self.stage = ClusterStage.restore(self.partition, self.partitions, dict(rows), self.recall)


class Twins:
    """A stage that is never restored, and one that is; the order of batches and restarts is the seed's."""

    def __init__(
        self, seed: int, *, partition: int = 0, partitions: int = 1, batch_max: int = 8
    ) -> None:
        self.steady = Side(partition, partitions)
        self.restored = Side(partition, partitions)
        self._random = random.Random(seed)
        self._batch_max = batch_max
        self._waiting: list[InputRecord] = []
        self._met = (0, 0)

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Let the steady one apply records as one batch; the other one does when they meet."""
        self._waiting += records
        return self.steady.apply(records)

    def meet(self) -> None:
        """Let the other one catch up, in batches and with restarts of its own, and compare."""
        waiting, self._waiting = self._waiting, []
        while waiting:
            size = self._random.randint(1, self._batch_max)
            if self._random.random() < 0.3:
                self.restored.restore(self._random)
            self.restored.apply(waiting[:size])
            del waiting[:size]
        self._compare()

    def _compare(self) -> None:
        steady, restored = self.steady, self.restored
        outputs, letters = self._met
        self._met = len(steady.outputs), len(steady.dead_letters)
        equal(steady.outputs[outputs:], restored.outputs[outputs:], "output")
        equal(steady.dead_letters[letters:], restored.dead_letters[letters:], "dead letter")
        for key in sorted({*steady.rows, *restored.rows}):
            mine, other = steady.rows.get(key), restored.rows.get(key)
            assert mine == other, f"row {key}:\nnever restored {mine!r}\nrestored       {other!r}"
        assert steady.stage.positions == restored.stage.positions
        assert steady.stage.figures() == restored.stage.figures()


def equal(mine: Sequence[OutputRecord], other: Sequence[OutputRecord], what: str) -> None:
    """The same records in the same order; names the first one that differs."""
    for index, (one, two) in enumerate(zip(mine, other, strict=False)):
        assert one == two, f"{what} {index}:\nnever restored {one}\nrestored       {two}"
    assert len(mine) == len(other), f"{len(mine)} {what}s, and {len(other)} where it was restored"
