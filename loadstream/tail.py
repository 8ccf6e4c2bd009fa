"""The command `loadstream tail`: records of a topic as sentences, or as they are."""

import heapq
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo
from loadstream.arguments import cluster_name, number, pod_name, topic_names, topic_of
from loadstream.failures import as_messages, connect_as_configured
from schemas.base.printable import json_text, one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from connectors.kafka.reader import Gap
    from connectors.kafka.selection import Selection
    from connectors.kafka.tail import Entry, Start
    from schemas.topics.catalog import Topic


TopicName = Annotated[str, typer.Argument(help="Topic to read.", autocompletion=topic_names)]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="beginning, end, a time ago (15m) or a time. Without: the beginning; with --follow: "
        "the end.",
    ),
]
Cluster = Annotated[
    str | None, typer.Option(help="Only records about this cluster.", callback=cluster_name)
]
Kind = Annotated[
    str | None, typer.Option(help="Only records of this kind, such as round or move of status.")
]
PodName = Annotated[str | None, typer.Option(help="Only records about this pod: NAMESPACE/NAME.")]
Limit = Annotated[
    int | None,
    typer.Option(
        parser=number("records", 1),
        metavar="RECORDS",
        help="Stop after this number of records.",
    ),
]
Last = Annotated[
    int | None,
    typer.Option(
        parser=number("records", 1, 100_000),
        metavar="RECORDS",
        help="Only the newest records, this many.",
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with new records, until Ctrl-C.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per record.")]


def tail(
    topic: TopicName,
    start: From = None,
    cluster: Cluster = None,
    pod: PodName = None,
    kind: Kind = None,
    limit: Limit = None,
    last: Last = None,
    follow: Follow = False,
    json: Json = False,
) -> None:
    """Show a topic's records as sentences.

    The order holds within a partition, so within a cluster. Without --follow it ends at the record
    that is the newest one at its start.
    """
    target = topic_of(topic)
    selection = _selection(target, cluster, pod, kind)
    if last is not None and (follow or limit is not None):
        raise typer.BadParameter("--last goes neither with --follow nor with --limit")
    with as_messages():
        from connectors.kafka.tail import as_json, read_entries

        since = _start(start, follow=follow)
        connection = connect_as_configured()
        state = _states(connection, topic)
        show = partial(as_json if json else _readable_line, state=state)
        # Without a choice the newest records are at the ends of the partitions, one at each offset
        # unless others were compacted away.
        ends = None if selection.chooses or target.compacted else last
        entries = read_entries(connection, target, since, follow=follow, last=ends)
        chosen = filter(selection.takes, _without_gaps(entries))
        for entry in islice(chosen if last is None else _newest(chosen, last), limit):
            echo(json_text(show(entry)) if json else one_line(show(entry)))


def _selection(
    topic: "Topic", cluster: str | None, pod: str | None, kind: str | None
) -> "Selection":
    """Which records are wanted; an error of the command line if none of the topic can be."""
    from connectors.kafka.selection import Selection

    try:
        named = None if pod is None else pod_name(pod, "--pod")
        return Selection.of(topic, cluster, named, kind)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _newest(entries: "Iterator[Entry]", count: int) -> "Iterator[Entry]":
    """The newest of all entries, in the order of time."""
    newest = heapq.nlargest(count, entries, key=lambda e: (e.timestamp_ms, e.partition, e.offset))
    return reversed(newest)


def _start(start: str | None, *, follow: bool) -> "Start":
    """Where reading begins; a text that says no such place is an error of the command line."""
    from connectors.kafka.tail import parse_start

    try:
        if start is None:
            start = "end" if follow else "beginning"
        since = parse_start(start, wall_clock.now_ms())
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


def _states(connection: "Connection", topic: str) -> "Callable[[Entry], str] | None":
    """Whether a policy was applied; none: of other topics that is not shown."""
    if topic != "policies":
        return None
    from connectors.kafka.applied import APPLIED, Applied

    applied = Applied(connection, topic)

    def state(entry: "Entry") -> str:
        if applied.state(entry.partition, entry.offset) != APPLIED:
            applied.look()
        return applied.state(entry.partition, entry.offset)

    return state


def _readable_line(entry: "Entry", state: "Callable[[Entry], str] | None") -> str:
    from connectors.kafka.reader import NO_TIME
    from connectors.queries.wording import sentence
    from connectors.units import time_text

    place = f"{entry.partition}:{entry.offset}"
    about = f" {entry.cluster}" if entry.cluster else ""
    said = "" if state is None else f"; {state(entry)}"
    at = "without a time" if entry.timestamp_ms == NO_TIME else time_text(entry.timestamp_ms)
    return f"{at} {place}{about} {sentence(entry.message)}{said}"
