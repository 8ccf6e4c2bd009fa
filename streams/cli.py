"""Commands of the streams: `loadstream worker`, `loadstream replay`.

One of the few places where streams and connectors meet: a worker looks at its topics before it starts,
since Faust would quietly read nothing from a topic that is not there; a replay reads whole topics.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors import policy_commands

if TYPE_CHECKING:
    from connectors.kafka.admin import Extent
    from connectors.kafka.client import Connection
    from schemas.connection import KafkaSettings
    from schemas.policy import KnownPlugins
    from streams.records import InputRecord
    from streams.replay import Window
    from streams.verdict import Verdict


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(worker)
    app.command()(replay)
    policy_commands.know_plugins(_known_plugins)


def _known_plugins() -> "KnownPlugins":
    from streams.cluster.plugins.registry import KNOWN

    return KNOWN


def worker(
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warn or error; else LOADSTREAM_LOG_LEVEL.")
    ] = None,
    check_topics: Annotated[
        bool, typer.Option(help="Look whether all topics are there and as they must be.")
    ] = True,
) -> None:
    """Run the stages: windows and percentiles, placement decisions.

    Settings come from the environment: LOADSTREAM_KAFKA_* say how to reach Kafka, LOADSTREAM_WORKER_*
    how the worker runs, LOADSTREAM_LOG_* what it says.
    """
    import uvloop
    from pydantic import ValidationError

    from schemas.connection import KafkaSettings, SettingsError
    from schemas.policy import PolicyError
    from streams.settings import LogSettings, WorkerSettings, refuse_misspelt
    from streams.shell import logs, memory

    uvloop.install()
    try:
        refuse_misspelt()
        settings = WorkerSettings()
        given: dict[str, Any] = {} if log_level is None else {"level": log_level}
        log = LogSettings(**given)
        kafka = KafkaSettings.from_environment()
        if check_topics:
            _check_topics(kafka)
        from streams.app import build

        logs.configure(log, kafka.secrets())
        app = build(settings, kafka)
    except (SettingsError, ValidationError, PolicyError, OSError) as error:
        typer.echo(f"loadstream worker: {error}", err=True)
        raise typer.Exit(2) from None
    memory.look_rarely()
    sys.exit(_run(app, settings.stop_timeout_s))


def _check_topics(kafka: "KafkaSettings") -> None:
    """Stop where a topic is missing or has another number of partitions; say what else differs."""
    from connectors.kafka.admin import find_topics
    from connectors.kafka.client import BrokerUnavailable, connect
    from connectors.kafka.topics import compare_all, expected_names, expected_topics

    try:
        found = find_topics(connect(kafka), expected_names())
    except BrokerUnavailable as error:
        typer.echo(f"loadstream worker: {error}", err=True)
        raise typer.Exit(1) from None
    stop = False
    for findings in compare_all(expected_topics(kafka), found).values():
        for finding in findings:
            grave = finding.verdict == "missing" or finding.setting == "partitions"
            stop |= grave
            if grave or finding.verdict == "differs":
                typer.echo(f"loadstream worker: {finding}", err=True)
    if stop:
        raise typer.Exit(1)


def _run(app: Any, stop_timeout_s: float) -> int:
    import logging

    from streams.shell.stopping import PromptWorker

    worker = PromptWorker(app, stop_timeout_s)
    code = 0
    try:
        worker.execute_from_commandline()
    except SystemExit as stop:
        code = int(stop.code or 0)
    if app.crash_reason is not None:
        # Last, where whoever looks at the log looks first; Faust has told it long before.
        reason = app.crash_reason
        logging.getLogger(__name__).critical(
            "the worker was stopped by %s: %s", type(reason).__name__, reason
        )
        return code or 1
    return code


def replay(
    partition: Annotated[
        list[int] | None, typer.Option("--partition", min=0, help="Only these; else all.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Compare from then on; as in `tail`.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Compare up to then.")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Compare only what is this cluster's.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Make all decisions of the journal again, and compare them with it byte for byte.

    Folds the recorded inputs in the recorded order, from the journal's first batch on, and changes
    nothing. Times are those of the log's clock. Exit code 0: equal; 1: something differs; 2: it cannot
    be told, since a part of the history is gone or no broker answers.
    """
    with _unknown_on_failure():
        import orjson

        from connectors.kafka.client import connect
        from schemas.connection import KafkaSettings
        from streams.replay import Window
        from streams.verdict import as_lines, as_object, exit_code

        window = Window(_time_ms(start, "--from"), _time_ms(end, "--to"), cluster)
        connection = connect(KafkaSettings.from_environment())
        extents = _journal_extents(connection)
        verdicts = []
        for number in _chosen(partition, cluster, len(extents)):
            verdict = _replay_partition(connection, extents[number], len(extents), window)
            verdicts.append(verdict)
            if not json:
                typer.echo("\n".join(as_lines(verdict)))
        code = exit_code(verdicts)
        if json:
            typer.echo(orjson.dumps([as_object(verdict) for verdict in verdicts]))
        elif all(verdict.word == "empty" for verdict in verdicts):
            typer.echo("nothing was compared: no batch of the journal is in question", err=True)
    raise typer.Exit(code)


@contextmanager
def _unknown_on_failure() -> Iterator[None]:
    """Who cannot read cannot tell: exit code 2, as 1 stands for a difference."""
    from connectors.kafka.client import BrokerUnavailable
    from schemas.connection import SettingsError

    try:
        yield
    except (BrokerUnavailable, SettingsError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _time_ms(text: str | None, option: str) -> int | None:
    """Milliseconds since 1970, as `tail` reads times; none: unbounded."""
    import time

    from connectors.kafka.tail import parse_start

    if text is None:
        return None
    try:
        moment = parse_start(text, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    if isinstance(moment, str):
        raise typer.BadParameter(f"found {text}; expected a time", param_hint=option)
    return moment


def _journal_extents(connection: "Connection") -> "tuple[Extent, ...]":
    """What the journal holds; all topics of the stage must be there, with as many partitions."""
    from connectors.kafka.admin import find_topics, read_extents
    from schemas.topics import CLUSTER_INPUTS
    from streams.journal import TOPIC

    found = find_topics(connection, (TOPIC, *CLUSTER_INPUTS))
    missing = [name for name in (TOPIC, *CLUSTER_INPUTS) if name not in found]
    counts = {topic.name: topic.partitions for topic in found.values()}
    if missing or len(set(counts.values())) != 1:
        typer.echo(
            f"error: the topics are not those that a worker has read; missing: "
            f"{', '.join(missing) or 'none'}; partitions: {counts}. `loadstream topics check` says more",
            err=True,
        )
        raise typer.Exit(2)
    return read_extents(connection, [found[TOPIC]])[TOPIC]


def _chosen(partitions: list[int] | None, cluster: str | None, count: int) -> list[int]:
    """Partitions to replay: those that were named, or that of the cluster, or all."""
    from schemas.partitions import partition_for

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
    connection: "Connection", extent: "Extent", partitions: int, window: "Window"
) -> "Verdict":
    from connectors.kafka.cursor import Cursor
    from streams.journal import TOPIC, JournalDamaged
    from streams.replay import HISTORY_HINT, NotReplayable, Replay, Summary, follow
    from streams.verdict import Verdict

    number = extent.partition
    if extent.first_offset > 0:
        gone = f"journal offsets 0 to {extent.first_offset - 1} are gone. {HISTORY_HINT}"
        return Verdict(number, Summary(), problem=gone)
    fold = Replay(number, partitions, window)
    with ExitStack() as open_cursors:
        inputs = _Inputs(connection, number, open_cursors)
        journal = Cursor(connection, TOPIC, number)
        open_cursors.callback(journal.close)
        entries = ((r.offset, r.value) for r in journal.through(extent.next_offset - 1))
        try:
            difference = follow(entries, inputs, fold)
        except (JournalDamaged, NotReplayable) as error:
            return Verdict(number, fold.summary, problem=str(error))
    return Verdict(number, fold.summary, difference)


class _Inputs:
    """The input topics of one partition, each with a cursor from its first use on."""

    def __init__(self, connection: "Connection", partition: int, open_cursors: ExitStack) -> None:
        self._connection = connection
        self._partition = partition
        self._open_cursors = open_cursors
        self._cursors: dict[str, Any] = {}

    def through(self, topic: str, last_offset: int) -> "Iterable[InputRecord]":
        """Records that were not given before, up to an offset."""
        from connectors.kafka.cursor import Cursor
        from streams.records import InputRecord

        if topic not in self._cursors:
            self._cursors[topic] = Cursor(self._connection, topic, self._partition)
            self._open_cursors.callback(self._cursors[topic].close)
        for found in self._cursors[topic].through(last_offset):
            yield InputRecord(
                topic, self._partition, found.offset, found.key, found.value, found.timestamp_ms
            )
