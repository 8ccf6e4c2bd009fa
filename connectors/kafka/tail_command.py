"""The command `loadstream tail`: records of a topic as sentences, or as they are."""

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from connectors import wall_clock
from connectors.arguments import number, pod_name
from connectors.kafka.failures import as_messages, connect_as_configured
from connectors.kafka.topic_argument import topic_names, topic_of
from connectors.terminal import echo
from schemas.printable import json_text, one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from connectors.kafka.reader import Gap
    from connectors.kafka.tail import Entry, Start


def tail(
    topic: Annotated[str, typer.Argument(help="Topic to read.", autocompletion=topic_names)],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="beginning, end, a time ago (15m) or a time. Without: the beginning; with --follow: "
            "the end.",
        ),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Only records about this cluster.")] = None,
    pod: Annotated[
        str | None, typer.Option(help="Only records about this pod: NAMESPACE/NAME.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            parser=number("records", 1),
            metavar="RECORDS",
            help="Stop after this number of records.",
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            parser=number("records", 1, 100_000),
            metavar="RECORDS",
            help="Only this number of records, the newest.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a record.")] = False,
) -> None:
    """Show a topic's records as sentences.

    The order holds within a partition, so within a cluster. Without --follow it ends at the record
    that is newest when it begins.
    """
    from connectors.kafka.selection import Selection

    target, named = topic_of(topic), None if pod is None else pod_name(pod, "--pod")
    try:
        selection = Selection.of(target, cluster, named)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if last is not None and (follow or limit is not None):
        raise typer.BadParameter("--last goes neither with --follow nor with --limit")
    with as_messages():
        from connectors.kafka.tail import as_json, read_entries

        since = _start(start, follow=follow)
        connection = connect_as_configured()
        show = as_json if json else _line_writer(connection, topic)
        # Without a choice the newest records are at the ends of the partitions.
        ends = last if selection == Selection() else None
        entries = read_entries(connection, target, since, follow=follow, last=ends)
        chosen: Iterator[Entry] = (e for e in _without_gaps(entries) if selection.takes(e))
        if last is not None:
            newest = heapq.nlargest(
                last, chosen, key=lambda e: (e.timestamp_ms, e.partition, e.offset)
            )
            chosen = reversed(newest)
        for entry in islice(chosen, limit):
            echo(json_text(show(entry)) if json else one_line(show(entry)))


def _start(start: str | None, *, follow: bool) -> "Start":
    """Where reading begins; a text that says no such place is an error of the command line."""
    from connectors.kafka.tail import parse_start

    try:
        since = parse_start(start or ("end" if follow else "beginning"), wall_clock.now_ms())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from None
    if since == "end" and not follow:
        raise typer.BadParameter(
            "nothing comes after the end without --follow", param_hint="--from"
        )
    return since


def _without_gaps(entries: "Iterator[Entry | Gap]") -> "Iterator[Entry]":
    """Entries; gaps are reported on standard error."""
    from connectors.kafka.reader import Gap

    for entry in entries:
        if isinstance(entry, Gap):
            echo(f"warning: {entry}", err=True)
        else:
            yield entry


def _line_writer(connection: "Connection", topic: str) -> "Callable[[Entry], str]":
    """How a record is written as a line; a policy with whether it was applied."""
    if topic != "policies":
        return _readable_line
    from connectors.kafka.applied import APPLIED, Applied

    applied = Applied(connection, topic)

    def line(entry: "Entry") -> str:
        if applied.state(entry.partition, entry.offset) != APPLIED:
            applied.look()
        return f"{_readable_line(entry)}; {applied.state(entry.partition, entry.offset)}"

    return line


def _readable_line(entry: "Entry") -> str:
    from connectors.kafka.wording import sentence
    from connectors.units import time_text

    place = f"{entry.partition}:{entry.offset}"
    about = f" {entry.cluster}" if entry.cluster else ""
    return f"{time_text(entry.timestamp_ms)} {place}{about} {sentence(entry.message)}"
