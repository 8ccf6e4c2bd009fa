"""The command group `topic`: `create`, `check`, `list` and `produce`; `tail` has its own module.

Exit codes: 0 done; 1 a topic is missing or differs, or a line was refused; 2 the command line is wrong.
Results go to standard output, messages to standard error.
"""

import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Json, find_topic, topic_names
from loadstream.cli.command import as_messages, command, connect_as_configured, print_table, warn
from loadstream.topic.tail import tail

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from connectors.kafka.extents import Extent
    from connectors.kafka.produce import ProduceSummary
    from connectors.kafka.topics import Finding, FoundTopic

app = typer.Typer(
    name="topic",
    no_args_is_help=True,
    help="Create and check topics, write and read their records.",
)
command(app, "topic tail placement-decisions --cluster prod-eu-1 -f")(tail)


@command(app, "topic create")
def create(
    mend: Annotated[
        bool, typer.Option("--mend", help="Also correct settings of existing topics.")
    ] = False,
    json: Json = False,
) -> None:
    """Create missing topics, and report how existing topics differ."""
    with as_messages():
        from connectors.kafka.admin import create_topics
        from connectors.kafka.topics import expected_topics

        connection = connect_as_configured()
        created, report = create_topics(connection, expected_topics(connection.settings), mend=mend)
        if not json:
            echo(f"created {len(created)} topics; {len(report) - len(created)} already existed")
        _print_findings(connection, report, json=json, created=list(created))


@command(app, "topic check --json")
def check(json: Json = False) -> None:
    """Compare all topics with the expected ones; changes nothing."""
    with as_messages():
        from connectors.kafka.admin import find_topics
        from connectors.kafka.topics import compare_all, expected_names, expected_topics

        connection = connect_as_configured()
        topics = find_topics(connection, expected_names())
        _print_findings(
            connection, compare_all(expected_topics(connection.settings), topics), json=json
        )


@command(app, "topic list", name="list")
def list_(json: Json = False) -> None:
    """Show all topics: partitions, replicas, offsets, and the largest possible number of records."""
    with as_messages():
        from connectors.kafka.admin import find_topics
        from connectors.kafka.extents import read_extents
        from connectors.kafka.topics import expected_names

        connection = connect_as_configured()
        topics = find_topics(connection, expected_names())
        extents = read_extents(
            connection, {name: topic.partitions for name, topic in topics.items()}
        )
        if json:
            for name in expected_names():
                print_json(_extent_json(name, topics.get(name), extents.get(name, ())))
            return
        rows = [("TOPIC", "PARTITIONS", "REPLICAS", "RECORDS", "OFFSETS BY PARTITION")]
        for name in expected_names():
            if name not in topics:
                rows.append((name, "none", "", "", "missing; run `loadstream topic create`"))
                continue
            count = sum(e.next_offset - e.first_offset for e in extents[name])
            spans = " ".join(f"{e.first_offset}..{e.next_offset}" for e in extents[name])
            topic = topics[name]
            rows.append((name, str(topic.partitions), str(topic.replication), str(count), spans))
        print_table(rows)


@command(app, "topic produce node-usage samples.jsonl")
def produce(
    topic: Annotated[str, typer.Argument(help="Topic to write to.", autocompletion=topic_names)],
    file: Annotated[
        typer.FileBinaryRead | None,
        typer.Argument(help="JSON lines; - or no file: standard input."),
    ] = None,
    on_error: Annotated[
        Literal["stop", "skip"],
        typer.Option(help="At a refused line, stop or skip the line."),
    ] = "stop",
    json: Json = False,
) -> None:
    """Write JSON lines to a topic. Each line is checked as its consumer would check it.

    Keys, partitions and timestamps are computed from the messages. The exit code is 1 if a line was
    refused.
    """
    target = find_topic(topic)
    with as_messages():
        from connectors.kafka.produce import produce_lines
        from loadstream.topic.consumer_reading import read_as_consumer

        def report(line: int, reason: str) -> None:
            echo(f"line {line}: {reason}", err=True)

        connection = connect_as_configured()
        summary = produce_lines(
            connection, target, file or sys.stdin.buffer,
            read=read_as_consumer, on_error=on_error, on_rejection=report,
        )  # fmt: skip
    _print_summary(topic, summary, json=json)
    for unknown, lines in sorted(summary.unknown.items(), key=lambda item: str(item[0])):
        suffix = f" ({lines} lines)" if lines > 1 else ""
        warn(f"{unknown}{suffix}")
    if summary.expired and not connection.embedded:
        echo(
            f"warning: {summary.expired} records are older than {topic} keeps them; the broker will "
            "delete them soon",
            err=True,
        )
    if summary.stopped:
        echo(
            "stopped at the refused line; the lines before it were written. Use --on-error skip to continue.",
            err=True,
        )
    if summary.rejected:
        raise typer.Exit(1)


def _print_summary(topic: str, summary: "ProduceSummary", *, json: bool) -> None:
    if json:
        fields_ = {field.name: getattr(summary, field.name) for field in fields(summary)}
        unknown = {str(field): lines for field, lines in summary.unknown.items()}
        print_json({"topic": topic, **fields_, "unknown": unknown})
        return
    rate = summary.produced / summary.seconds if summary.seconds else 0.0
    echo(
        f"records written to {topic}: {summary.produced} ({summary.value_bytes} bytes, "
        f"{summary.seconds:.1f} s, {rate:,.0f} a second); lines refused: {summary.rejected}"
    )


def _extent_json(name: str, topic: "FoundTopic | None", extents: "tuple[Extent, ...]") -> Any:
    if topic is None:
        return {"topic": name, "missing": True}
    return {
        "topic": name,
        "partitions": topic.partitions,
        "copies": topic.replication,
        "offsets": [[extent.first_offset, extent.next_offset] for extent in extents],
    }


def _print_findings(
    connection: "Connection",
    report: "dict[str, list[Finding]]",
    *,
    json: bool,
    created: Sequence[str] = (),
) -> None:
    """Print the findings; ends with exit code 1 if a topic is missing or differs."""
    from connectors.kafka.topics import find_worst_grade

    verdicts = [find_worst_grade(findings) for findings in report.values()]
    if json:
        for topic, findings in report.items():
            texts = [str(finding) for finding in findings]
            result = {"topic": topic, "verdict": find_worst_grade(findings)}
            print_json({**result, "made": topic in created, "findings": texts})
    else:
        _print_lines(connection, report, verdicts)
    if "differs" in verdicts or "missing" in verdicts:
        raise typer.Exit(1)


def _print_lines(
    connection: "Connection", report: "dict[str, list[Finding]]", verdicts: Sequence[str]
) -> None:
    for findings in report.values():
        for finding in findings:
            # The embedded broker has no settings, so its findings are the same for every topic.
            if finding.verdict != "unknown" or not connection.embedded:
                echo(str(finding))
    unknown = "exist" if connection.embedded else "unknown"
    labels = {"ok": "ok", "unknown": unknown, "differs": "differs", "missing": "missing"}
    counted = ", ".join(
        f"{verdicts.count(kind)} {label}" for kind, label in labels.items() if kind in verdicts
    )
    echo(f"{len(report)} topics: {counted}")
    if connection.embedded:
        echo("The embedded broker does not enforce retention, compaction and size limits.")
