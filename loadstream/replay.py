"""The command `replay verify`: replays the records of the journal and compares the outputs.

Exit codes: 0 equal; 1 something differs, or no broker answers; 2 the command line is wrong; 3 nothing
was compared, or a part of the history is gone.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Self

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Json, check_cluster_name
from loadstream.cli.command import NOTHING_FOUND, as_messages, command, connect_as_configured

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from connectors.kafka.reader import Cursor
    from streams.replay.report import ReplayResult
    from streams.replay.verify import Window
    from streams.stage.checkpoint import Checkpoint
    from streams.stage.records import InputRecord


app = typer.Typer(
    name="replay", no_args_is_help=True, help="Recompute recorded decisions and compare them."
)


@app.callback()
def _group() -> None:
    """Keep `replay` a group: Typer would merge a group with its only command."""


@command(app, "replay verify --cluster prod-eu-1 --from 2h")
def verify(
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", min=0, help="Partition to verify; can be repeated. Default: all."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Start of the compared time: a duration before now or a time, as in `topic tail`.",
        ),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="End of the compared time.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Compare only this cluster's outputs and rows.", callback=check_cluster_name
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Recompute all decisions of the journal and compare them byte by byte.

    Applies the recorded inputs in their recorded order, from the journal's first batch or from a
    checkpoint. Writes nothing. Times are those of topic `clock`. Exit code 0: equal; 1:
    something differs; 3: unknown, because a part of the history is gone.
    """
    with as_messages():
        from connectors.kafka.extents import check_partitions
        from schemas.topics.catalog import CLUSTER_INPUTS
        from streams.replay.report import build_object, choose_exit_code, format_lines
        from streams.stage.journal import TOPIC

        window = _parse_window(start, end, cluster)
        connection = connect_as_configured()
        for topic in (TOPIC, *CLUSTER_INPUTS):
            check_partitions(connection, topic)
        partitions = connection.settings.partitions
        results = []
        for number in _choose_partitions(partition, cluster, partitions):
            result = _replay_partition(connection, number, partitions, window)
            results.append(result)
            if json:
                print_json(build_object(result))
            else:
                echo("\n".join(format_lines(result)))
        code = choose_exit_code(results)
        is_empty = all(result.verdict == "empty" for result in results)
        if code == NOTHING_FOUND and not json and is_empty:
            echo("nothing was compared: no batch of the journal is in this time", err=True)
        if cluster is not None and not code:
            code = _find_exit_code(connection, cluster)
    raise typer.Exit(code)


def _find_exit_code(connection: "Connection", cluster: str) -> int:
    """Return 3 if no record names the cluster, because then nothing was compared; else 0."""
    from connectors.queries.presence import search_cluster

    search = search_cluster(connection, cluster)
    problem = search.warning(f"Cluster {cluster}")
    if problem is None or not search.read_all:
        return 0
    echo(f"error: nothing was compared. {problem}", err=True)
    return NOTHING_FOUND


def _parse_time_ms(text: str | None, option: str) -> int | None:
    """Return milliseconds since 1970 for a time as in `topic tail`; None: unbounded."""
    from connectors.kafka.tail import parse_time

    if text is None:
        return None
    try:
        return parse_time(text, wall_clock.now_ms())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _parse_window(start: str | None, end: str | None, cluster: str | None) -> "Window":
    """Return the compared time and cluster; refuses a time that ends before it begins."""
    from streams.replay.verify import Window

    window = Window(_parse_time_ms(start, "--from"), _parse_time_ms(end, "--to"), cluster)
    if window.from_ms is not None and window.to_ms is not None and window.to_ms < window.from_ms:
        raise typer.BadParameter(
            f"found {end}, which is before --from {start}; expected a later time", param_hint="--to"
        )
    return window


def _choose_partitions(partitions: list[int] | None, cluster: str | None, count: int) -> list[int]:
    """Return the partitions to replay: the given partitions, the cluster's partition, or all."""
    from schemas.topics.partitions import partition_for

    beyond = [number for number in partitions or () if number >= count]
    if beyond:
        raise typer.BadParameter(
            f"found {beyond[0]}; the journal has the partitions 0 to {count - 1}",
            param_hint="--partition",
        )
    if cluster is None:
        return sorted(set(partitions or range(count)))
    home = partition_for(cluster.encode(), count)
    if partitions and home not in partitions:
        raise typer.BadParameter(
            f"cluster {cluster} is in partition {home} of {count}", param_hint="--partition"
        )
    return [home]


def _replay_partition(
    connection: "Connection", number: int, partitions: int, window: "Window"
) -> "ReplayResult":
    from streams.replay.recorded import NotReplayable
    from streams.replay.report import ReplayResult
    from streams.replay.start import choose_checkpoint, find_oldest_checkpoint
    from streams.replay.verify import ReplaySummary

    with _History(connection, number) as history:
        try:
            checkpoint = choose_checkpoint(history, number, window.from_ms)
        except NotReplayable as error:
            return ReplayResult(number, ReplaySummary(), problem=str(error))
        result = _replay_from(checkpoint, history, number, partitions, window)
        if not result.history_missing or checkpoint is not None or window.from_ms is not None:
            return result
        later_checkpoint = find_oldest_checkpoint(history, number)
        if later_checkpoint is None:
            return result
        later_result = _replay_from(later_checkpoint, history, number, partitions, window)
    return later_result if later_result.problem is None else result


def _replay_from(
    checkpoint: "Checkpoint | None",
    history: "_History",
    number: int,
    partitions: int,
    window: "Window",
) -> "ReplayResult":
    """Replay the batches after a checkpoint, or all batches."""
    from streams.replay.recorded import NotReplayable, Recording
    from streams.replay.report import ReplayResult
    from streams.replay.verify import ReplaySummary, Verification
    from streams.stage.journal import TOPIC, JournalDamaged

    summary = ReplaySummary()
    try:
        verification = Verification(number, partitions, window, checkpoint)
        summary, start = verification.summary, verification.start
        history.restart(start.next_offsets)
        first, (_, end) = start.position.offset + 1, history.read_extent(TOPIC)
        entries = history.read(TOPIC, first, end - 1)
        difference = verification.verify(Recording(number, entries, history, start))
    except (JournalDamaged, NotReplayable) as error:
        history_missing = isinstance(error, NotReplayable)
        return ReplayResult(number, summary, problem=str(error), history_missing=history_missing)
    return ReplayResult(number, summary, difference)


class _History:
    """The topics of one partition up to their ends at the first read; a context manager."""

    def __init__(self, connection: "Connection", partition: int) -> None:
        self._connection = connection
        self._partition = partition
        self._extents: dict[str, tuple[int, int]] = {}
        self._cursors: dict[str, Cursor] = {}
        self._next_offsets: Mapping[str, int] = {}
        """First offset to read of each input topic; default: 0."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.restart({})

    def restart(self, next_offsets: Mapping[str, int]) -> None:
        """Read each input topic again from an offset."""
        for cursor in self._cursors.values():
            cursor.close()
        self._cursors, self._next_offsets = {}, next_offsets

    def read_extent(self, topic: str) -> tuple[int, int]:
        """Return the first offset and the next offset."""
        from connectors.kafka.extents import extent_of

        if topic not in self._extents:
            extent = extent_of(self._connection, topic, self._partition)
            self._extents[topic] = (extent.first_offset, extent.next_offset)
        return self._extents[topic]

    def read(
        self, topic: str, first_offset: int, last_offset: int
    ) -> "Iterator[tuple[int, bytes | None]]":
        """Yield offsets and values between two offsets."""
        from connectors.kafka.reader import read_range

        end = last_offset + 1
        for record in read_range(self._connection, topic, self._partition, first_offset, end):
            yield record.offset, record.value

    def read_through(self, topic: str, last_offset: int) -> "Iterator[InputRecord]":
        """Yield the next records of an input topic, up to and including an offset."""
        from connectors.kafka.reader import Cursor
        from streams.stage.records import InputRecord

        if topic not in self._cursors:
            first = self._next_offsets.get(topic, 0)
            self._cursors[topic] = Cursor(self._connection, topic, self._partition, first)
        for record in self._cursors[topic].through(last_offset):
            yield InputRecord(
                topic, record.partition, record.offset, record.key, record.value, record.timestamp_ms
            )  # fmt: skip
