"""The commands around Kafka: `broker`, `topics`, `produce` and `tail`.

Exit codes: 0 all is well; 1 something is not as it should be, and was said; 2 the command line is wrong.
What was asked for goes to standard output, everything else to standard error.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from connectors.kafka.failures import as_messages

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from connectors.kafka.tail import Entry
    from connectors.kafka.topics import Finding
    from schemas.topics import Topic

topics = typer.Typer(
    no_args_is_help=True, help="Make, show and check the topics that everything else needs."
)


def register(app: typer.Typer) -> None:
    """Add the commands of this module to an app."""
    app.command()(broker)
    app.add_typer(topics, name="topics")
    app.command()(produce)
    app.command()(tail)


def broker(
    kafka: Annotated[
        bool, typer.Option("--kafka", help="A real Apache Kafka instead of the embedded broker.")
    ] = False,
    brokers: Annotated[int, typer.Option(min=1, max=9, help="How many brokers.")] = 1,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="Port of the first broker; only with --kafka."),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Keep the records here; only with --kafka. Otherwise they go at the end."
        ),
    ] = None,
) -> None:
    """Run a local broker with all topics until Ctrl-C; other commands find it by themselves.

    The embedded broker needs nothing installed, keeps about 5 MB a partition and forgets all at its
    end. A real Kafka (--kafka) needs Java 17 and, the first time, Maven.
    """
    if not kafka and (port is not None or directory is not None):
        raise typer.BadParameter(
            "the embedded broker takes a port that the system gives it, and keeps nothing; use --kafka "
            "with --port and --directory",
        )
    from connectors.kafka import foreground

    with as_messages():
        if kafka:
            foreground.run_kafka(brokers, port, directory)
        else:
            foreground.run_embedded(brokers)


@topics.command()
def create(
    mend: Annotated[
        bool, typer.Option("--mend", help="Also set settings of existing topics that differ.")
    ] = False,
) -> None:
    """Make all topics that are missing; says exactly how existing ones differ."""
    with as_messages():
        from connectors.kafka.admin import create_topics
        from connectors.kafka.topics import expected_topics

        connection = _connect()
        made, report = create_topics(connection, expected_topics(connection.settings), mend=mend)
        typer.echo(f"made {len(made)} topics; {len(report) - len(made)} existed already")
        _tell(connection, report)


@topics.command()
def check() -> None:
    """Compare all topics with what they must be, and change nothing."""
    with as_messages():
        from connectors.kafka.admin import find_topics
        from connectors.kafka.topics import compare_all, expected_names, expected_topics

        connection = _connect()
        found = find_topics(connection, expected_names())
        _tell(connection, compare_all(expected_topics(connection.settings), found))


@topics.command(name="list")
def list_() -> None:
    """Show all topics: partitions, copies, and the records that they hold at most."""
    with as_messages():
        from connectors.kafka.admin import find_topics, read_extents
        from connectors.kafka.topics import expected_names

        connection = _connect()
        found = find_topics(connection, expected_names())
        extents = read_extents(connection, found.values())
        rows = [("TOPIC", "PARTITIONS", "COPIES", "RECORDS", "OFFSETS BY PARTITION")]
        for name in expected_names():
            if name not in found:
                rows.append((name, "none", "", "", "missing; `loadstream topics create` makes it"))
                continue
            held = sum(e.next_offset - e.first_offset for e in extents[name])
            spans = " ".join(f"{e.first_offset}..{e.next_offset}" for e in extents[name])
            topic = found[name]
            rows.append((name, str(topic.partitions), str(topic.replication), str(held), spans))
        _print_table(rows)


def produce(
    topic: Annotated[str, typer.Argument(help="Topic to write to.")],
    file: Annotated[
        Path | None, typer.Argument(help="JSON lines; - or nothing: standard input.")
    ] = None,
    on_error: Annotated[
        Literal["stop", "skip"],
        typer.Option(help="What a refused line does: stop the run, or be skipped."),
    ] = "stop",
) -> None:
    """Write JSON lines into a topic; each is checked as its reader would check it.

    Keys, partitions and timestamps come from the messages. Exit code 1 where a line was refused.
    """
    target = _topic(topic)
    with as_messages():
        from connectors.kafka.produce import Rejection, produce_lines
        from connectors.kafka.progress import opened_with_progress

        def tell(rejection: Rejection) -> None:
            typer.echo(f"line {rejection.line}: {rejection.reason}", err=True)

        connection = _connect()
        with opened_with_progress(file) as (stream, progress):
            summary = produce_lines(
                connection, target, stream,
                on_error=on_error,
                on_rejection=tell, on_progress=progress,
            )  # fmt: skip
    rate = summary.produced / summary.seconds if summary.seconds else 0.0
    typer.echo(
        f"records written to {topic}: {summary.produced} ({summary.value_bytes} bytes, "
        f"{summary.seconds:.1f} s, {rate:,.0f} a second); lines refused: {summary.rejected}"
    )
    if summary.expired and not connection.embedded:
        typer.echo(
            f"warning: {summary.expired} records are older than {topic} keeps them; the broker will "
            "delete them soon",
            err=True,
        )
    if summary.stopped:
        typer.echo(
            "stopped at the refused line; what came before it was written. --on-error skip goes on.",
            err=True,
        )
    if summary.rejected:
        raise typer.Exit(1)


def tail(
    topic: Annotated[str, typer.Argument(help="Topic to read.")],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="beginning, end, a time ago (15m) or a time. Without: the beginning; with --follow: "
            "the end.",
        ),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Only records about this cluster.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many records.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a record.")] = False,
) -> None:
    """Show a topic's records as sentences.

    The order holds within a partition, so within a cluster. Without --follow it ends at the record
    that is newest when it begins.
    """
    target = _topic(topic)
    if cluster is not None and target.key not in ("cluster", "cluster/node"):
        raise typer.BadParameter(
            f"records of {topic} are about no single cluster (their key is the {target.key})",
            param_hint="--cluster",
        )
    with as_messages():
        import time

        from connectors.kafka.tail import Gap, as_json, parse_start, read_entries

        try:
            since = parse_start(
                start or ("end" if follow else "beginning"), time.time_ns() // 1_000_000
            )
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--from") from None
        if since == "end" and not follow:
            raise typer.BadParameter(
                "nothing comes after the end without --follow", param_hint="--from"
            )
        show = as_json if json else _readable_line
        shown = 0
        for entry in read_entries(_connect(), target, since, follow=follow):
            if isinstance(entry, Gap):
                typer.echo(f"warning: {entry}", err=True)
                continue
            if cluster is not None and entry.cluster != cluster:
                continue
            typer.echo(show(entry))
            shown += 1
            if shown == limit:
                break


def _readable_line(entry: "Entry") -> str:
    from connectors.kafka.units import time_text
    from connectors.kafka.wording import sentence

    place = f"{entry.partition}:{entry.offset}"
    about = f" {entry.cluster}" if entry.cluster else ""
    return f"{time_text(entry.timestamp_ms)} {place}{about} {sentence(entry.message)}"


def _topic(name: str) -> "Topic":
    from difflib import get_close_matches

    from schemas.topics import TOPIC_BY_NAME

    if name not in TOPIC_BY_NAME:
        close = get_close_matches(name, TOPIC_BY_NAME, n=1)
        hint = (
            f"did you mean {close[0]}?" if close else f"expected one of {', '.join(TOPIC_BY_NAME)}"
        )
        raise typer.BadParameter(f"there is no topic {name!r}; {hint}", param_hint="TOPIC")
    return TOPIC_BY_NAME[name]


def _connect() -> "Connection":
    from connectors.kafka.client import connect
    from schemas.connection import KafkaSettings

    return connect(KafkaSettings.from_environment())


def _tell(connection: "Connection", report: "dict[str, list[Finding]]") -> None:
    """Print what was found; exits with 1 where something is missing or differs."""
    from connectors.kafka.topics import verdict

    verdicts = [verdict(findings) for findings in report.values()]
    for findings in report.values():
        for finding in findings:
            # What is unknown of an embedded broker is the same for every topic: said once, below.
            if finding.verdict != "unknown" or not connection.embedded:
                typer.echo(str(finding))
    counted = ", ".join(
        f"{verdicts.count(kind)} {kind}"
        for kind in ("ok", "unknown", "differs", "missing")
        if kind in verdicts
    )
    typer.echo(f"{len(report)} topics: {counted}")
    if connection.embedded:
        typer.echo(
            "This is the embedded broker: topics exist and have their partitions, but retention, "
            "compaction and size limits are unknown there and not enforced."
        )
    if "differs" in verdicts or "missing" in verdicts:
        raise typer.Exit(1)


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
