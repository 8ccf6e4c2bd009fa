"""Full lists on `node-state` and `pod-lifecycle`.

A watcher that starts, or has lost its position, sends all existing objects between a begin and an end
record with the same list id. When the end is applied, objects that are not in the list are removed. A
list without an end removes nothing; a second begin abandons the first list.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterMessage, Entries, published

#: Topics with full lists.
LISTED_TOPICS = ("node-state", "pod-lifecycle")

ListId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        json_schema_extra=published(description="Id of the full list; every list has a new id."),
    ),
]


class ListedMessage(ClusterMessage):
    """A message that can belong to a full list."""

    list_id: ListId | None = None
    """Set while a full list is sent."""


class ListBegin(ClusterMessage):
    """The following records with this list id belong to a full list."""

    kind: Literal["list-begin"] = "list-begin"
    """Kind of the record."""
    list_id: ListId


class ListEnd(ClusterMessage):
    """The full list is complete."""

    kind: Literal["list-end"] = "list-end"
    """Kind of the record."""
    list_id: ListId
    kinds: Annotated[Entries[Annotated[str, Field(max_length=64)]], Field(max_length=32)] = ()
    """Kinds of records that the list contains completely, even if it contains none of a kind.
    Without this field the last disruption budget of a cluster, for example, could never be
    removed."""
