"""Full lists on `node-state` and `pod-lifecycle`.

A watcher that starts, or has lost its place, sends everything that exists between a begin and an
end record with the same list id. What the list lacks is removed when its end is applied; a list
without its end removes nothing, and a second begin abandons the first.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterName, Message, published

ListId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        json_schema_extra=published(description="Which full list; new for every list."),
    ),
]


class ListBegin(Message):
    """From here on records with this list id belong to a full list."""

    kind: Literal["list-begin"] = "list-begin"
    """Says what the record is."""
    cluster: ClusterName
    list_id: ListId


class ListEnd(Message):
    """The full list is complete."""

    kind: Literal["list-end"] = "list-end"
    """Says what the record is."""
    cluster: ClusterName
    list_id: ListId
    kinds: Annotated[
        tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=32, fail_fast=True)
    ] = ()
    """Kinds of records that the list has completely, also if it names none of them: without it the
    last disruption budget of a cluster, say, could not be missing."""
