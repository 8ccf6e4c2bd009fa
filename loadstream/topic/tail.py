"""The command `topic tail`: records of a topic as sentences, or as JSON.

Exit codes: 0 done; 1 the broker is unavailable; 2 the command line is wrong; 3 no record was found; 130
Ctrl-C.
"""

import heapq
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo
from loadstream.cli.arguments import (
    Json,
    check_cluster_name,
    find_topic,
    parse_object_name,
    topic_names,
)
from loadstream.cli.command import NOTHING_FOUND, as_messages, connect_as_configured
from schemas.base.printable import escape_json, to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from connectors.kafka.tail import Entry, Selection, Start
    from schemas.topics.catalog import Topic

#: Default number of records.
_RECORDS_DEFAULT = 10

TopicName = Annotated[str, typer.Argument(help="Topic to read.", autocompletion=topic_names)]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="beginning, end, a duration before now (15m) or a time. Default: the newest records.",
    ),
]
Cluster = Annotated[
    str | None, typer.Option(help="Only records about this cluster.", callback=check_cluster_name)
]
Kind = Annotated[
    str | None,
    typer.Option(help="Only records of this kind, such as `round` or `move` (topic `status`)."),
]
PodName = Annotated[str | None, typer.Option(help="Only records about this pod: NAMESPACE/NAME.")]
Number = Annotated[
    int | None,
    typer.Option(
        "--number",
        "-n",
        min=1,
        max=100_000,
        help="Number of records: the newest records, or with --from the first records after that position. "
        f"Default: {_RECORDS_DEFAULT}; with --from all.",
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Continue with new records, until Ctrl-C.")
]


def tail(
    topic: TopicName,
    start: From = None,
    cluster: Cluster = None,
    pod: PodName = None,
    kind: Kind = None,
    count: Number = None,
    follow: Follow = False,
    json: Json = False,
) -> None:
    """Show a topic's newest records as sentences, or its records from a time on.

    Records are in order within a partition, and so within a cluster. Without --follow, the command does
    not show records that arrive after its start. Exit code 3: no record was found.
    """
    target = find_topic(topic)
    selection = _parse_selection(target, cluster, pod, kind)
    with as_messages():
        from connectors.kafka.tail import format_json

        since = None if start is None else _parse_start(start, follow=follow)
        connection = connect_as_configured()
        state = _policy_state_reader(connection, topic)
        show = partial(format_json if json else _format_line, state=state)
        if since is None:
            entries = _read_newest(
                connection, target, selection, count or _RECORDS_DEFAULT, follow=follow
            )
        else:
            entries = islice(
                _read_since(connection, target, selection, since, follow=follow), count
            )
        is_found = False
        for entry in entries:
            is_found = True
            echo(escape_json(show(entry)) if json else to_one_line(show(entry)))
    if not is_found:
        matching = " that matches the options" if selection.is_filtering or start else ""
        echo(f"topic {topic} has no record{matching}", err=True)
        raise typer.Exit(NOTHING_FOUND)


def _read_since(
    connection: "Connection",
    topic: "Topic",
    selection: "Selection",
    start: "Start",
    *,
    follow: bool,
    **bounds: Any,
) -> "Iterator[Entry]":
    """Yield records after a position; gaps are reported on standard error."""
    from connectors.kafka.reader import Gap
    from connectors.kafka.tail import read_entries

    for entry in read_entries(connection, topic, start, follow=follow, **bounds):
        if isinstance(entry, Gap):
            echo(f"warning: {entry}", err=True)
        elif selection.matches(entry):
            yield entry


def _read_newest(
    connection: "Connection",
    topic: "Topic",
    selection: "Selection",
    count: int,
    *,
    follow: bool,
) -> "Iterator[Entry]":
    """Yield the newest records in the order of time, and with `follow` all later records."""
    from connectors.kafka.extents import read_topic_extents

    extents = read_topic_extents(connection, topic.name)
    # Without a filter, the newest records are at the last offsets of each partition, except in a
    # compacted topic.
    last = None if selection.is_filtering or topic.compacted else count
    records = _read_since(
        connection, topic, selection, "beginning", follow=False, extents=extents, last=last
    )
    newest = heapq.nlargest(count, records, key=lambda e: (e.timestamp_ms, e.partition, e.offset))
    yield from reversed(newest)
    if follow:
        yield from _read_since(connection, topic, selection, "end", follow=True, extents=extents)


def _parse_selection(
    topic: "Topic", cluster: str | None, pod: str | None, kind: str | None
) -> "Selection":
    """Return the filter of records; refuses a filter that no record of the topic can match."""
    from connectors.kafka.tail import Selection

    try:
        pod_name = None if pod is None else parse_object_name(pod, "--pod")
        return Selection.of(topic, cluster, pod_name, kind)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _parse_start(start: str, *, follow: bool) -> "Start":
    from connectors.kafka.tail import parse_start

    try:
        since = parse_start(start, wall_clock.now_ms())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from None
    if since == "end" and not follow:
        raise typer.BadParameter(
            "there are no records after the end without --follow", param_hint="--from"
        )
    return since


def _policy_state_reader(connection: "Connection", topic: str) -> "Callable[[Entry], str] | None":
    """Return a function that tells whether a policy was applied; None for other topics."""
    if topic != "policies":
        return None
    from connectors.kafka.applied import APPLIED, AppliedRecords

    applied = AppliedRecords(connection, topic)

    def state(entry: "Entry") -> str:
        if applied.state(entry.partition, entry.offset) != APPLIED:
            applied.refresh()
        return applied.state(entry.partition, entry.offset)

    return state


def _format_line(entry: "Entry", state: "Callable[[Entry], str] | None") -> str:
    from connectors.kafka.reader import NO_TIME
    from connectors.queries.wording import sentence
    from connectors.units import time_text

    position = f"{entry.partition}:{entry.offset}"
    about = f" {entry.cluster}" if entry.cluster else ""
    policy_state = "" if state is None else f"; {state(entry)}"
    at = "without a time" if entry.timestamp_ms == NO_TIME else time_text(entry.timestamp_ms)
    return f"{at} {position}{about} {sentence(entry.message)}{policy_state}"
