"""The cluster stage under trial."""

from typing import Any

from schemas.storage.tables import kind_of_key
from schemas.topics.codec import decode
from streams.cluster.stage import ClusterStage
from streams.stage.packing import Changes
from streams.stage.records import InputRecord, StageResult
from streams.stage.statistics import Counts
from tests.fuzz.failure import Failure, require
from tests.fuzz.trial import Trial
from tests.fuzz.watcher import Watcher
from tests.fuzz.workers import JournaledWorker, folded
from tests.fuzz.world import PARTITION, PARTITIONS

#: Rows that a refused record may change: they count what was read.
_COUNTING = {"partitions", "clusters"}


class ClusterTrial(Trial):
    """One history of the cluster stage."""

    def __init__(self, seed: int) -> None:
        self._plain = ClusterStage(PARTITION, PARTITIONS)
        self._journaled = JournaledWorker(PARTITION, PARTITIONS)
        self._rows: dict[str, bytes] = {}
        self._changes = Changes()
        self._came_to = ""
        self._watcher = Watcher(self._plain)
        super().__init__(seed, self._plain, self._journaled)

    def check_counts(self, record: InputRecord, counts: Counts, result: StageResult) -> None:
        """Applied, repeated or refused."""
        require(sum(counts.results.values()) == 1, "a record came to several things", f"{counts}")
        (self._came_to,) = counts.results
        if self._came_to == "applied":
            return
        require(not result.outputs, f"a record that is {self._came_to} has outputs")
        kinds = {kind_of_key(row.key) for row in result.rows}
        allowed = _COUNTING if self._came_to == "refused" else {"partitions"}
        if record.topic != "clock":
            require(kinds <= allowed, f"a record that is {self._came_to} changes rows", f"{kinds}")

    def check_record(self, record: InputRecord, result: StageResult, said: list[Any]) -> None:
        """Decisions and commands are what they must be."""
        for row in result.rows:
            self._changes.add(row.key, row.value)
        message = decode(record.topic, record.value) if self._came_to == "applied" else None
        self._watcher.heard(record, message, said)

    def compare(self) -> None:
        """The rows are those of the plain stage, which has never read any."""
        folded(self._rows, self._changes)
        self._changes = Changes()
        written = self._journaled.table
        if written == self._rows:
            return
        for key in sorted(written.keys() | self._rows.keys()):
            expected, found = self._rows.get(key), written.get(key)
            if expected != found:
                kind = (
                    f"a worker has another row of {kind_of_key(key)} than a stage that never ends"
                )
                raise Failure(kind, f"{key} is {found!r:.1500} instead of {expected!r:.1500}")
