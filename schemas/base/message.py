"""Base classes of messages, and types of their fields.

A message is frozen (it is a fact or a command, which nobody edits), strict (a string is not a
number) and versioned. Readers ignore unknown fields, so a producer may be newer than its reader. They
refuse an unknown version, because its fields may mean something else.

The types below carry their unit and bounds into the published JSON Schema. Every integer fits into
64 bits, because a larger integer could be read but not written. Every sequence and map stops at its
first bad item: reporting a million bad items would block a worker for many seconds.
"""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from schemas.base.quantities import QUANTITY_PATTERN, QUANTITY_TEXT_MAX

T = TypeVar("T")

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

#: Largest amount of a resource in computations: 1 PiB, more than any machine has. The schema of samples
#: refuses larger amounts, other schemas accept any 64-bit amount. Amounts are cut to this limit before they
#: are summed, so that sums over all pods of a node, and products with percentages, fit into 64 bits.
AMOUNT_MAX = 2**50

#: The beginnings of the years 2000 and 2100.
EPOCH_MS_MIN, EPOCH_MS_MAX = 946_684_800_000, 4_102_444_800_000

#: Neither "/", which separates the parts of a key, nor blanks and control characters.
NAME_PATTERN = r"^[^/\x00-\x20\x7f]+$"


def published(**keywords: str) -> Callable[[dict[str, Any]], None]:
    """Return a function that adds keywords (unit, description) to a JSON Schema; the docstring of a
    field takes precedence over a description."""

    def add(schema: dict[str, Any]) -> None:
        for keyword, value in keywords.items():
            schema.setdefault(keyword, value)

    return add


#: A time in milliseconds since 1970-01-01 UTC. The range from 2000 to 2100 refuses values in seconds or
#: microseconds.
EpochMs = Annotated[
    int,
    Field(ge=EPOCH_MS_MIN, le=EPOCH_MS_MAX, json_schema_extra=published(unit="ms since 1970-01-01 UTC")),
]  # fmt: skip
#: A time within loadstream's state; 0 is before the first clock tick.
StateMs = Annotated[
    int,
    Field(ge=0, le=INT64_MAX, json_schema_extra=published(unit="ms since 1970-01-01 UTC")),
]
#: A duration in milliseconds, at most ten years.
DurationMs = Annotated[int, Field(ge=0, le=315_576_000_000, json_schema_extra=published(unit="ms"))]
#: A number of things, or an index.
Count = Annotated[int, Field(ge=0, le=INT64_MAX)]
#: A sequence. It is read until its first bad item.
Entries = Annotated[tuple[T, ...], Field(fail_fast=True)]
#: A map. It is read until its first bad entry.
ByName = Annotated[dict[str, T], Field(fail_fast=True)]
#: Counts or offsets by name.
Counts = ByName[Count]
#: Name of a cluster: part of every key, so it cannot contain the separator "/".
ClusterName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=253,
        pattern=NAME_PATTERN,
        json_schema_extra=published(description="Name of the cluster."),
    ),
]
#: Name of a Kubernetes object.
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=NAME_PATTERN)]
#: Name of a node.
NodeName = Annotated[
    ObjectName, Field(json_schema_extra=published(description="Name of the node."))
]
#: Name of a usage source, as in metrics and messages.
SourceName = Annotated[str, Field(min_length=1, max_length=253)]
#: uid of a Kubernetes object.
Uid = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        json_schema_extra=published(
            description="metadata.uid, which distinguishes objects of the same name."
        ),
    ),
]
#: Name of a resource: cpu, memory, ephemeral-storage, nvidia.com/gpu ...
ResourceName = Annotated[str, Field(min_length=1, max_length=317, pattern=r"^[^\x00-\x20\x7f]+$")]
#: Most resources in one map.
RESOURCES_MAX = 64
#: Values by resource.
ByResource = Annotated[dict[ResourceName, T], Field(max_length=RESOURCES_MAX, fail_fast=True)]
#: Unit of amounts by resource.
AMOUNTS_UNIT = Field(
    json_schema_extra=published(
        unit="cpu: millicores; every other resource: its base unit (bytes, pieces)"
    )
)
#: Amounts of resources: cpu in millicores, every other resource in its base unit (bytes, pieces).
ResourceAmounts = Annotated[ByResource[Count], AMOUNTS_UNIT]
#: A quantity of at least 0, as Kubernetes writes it: "250m", "1.5Gi", "1e3". `schemas.base.quantities`
#: reads it.
ResourceQuantity = Annotated[
    str,
    Field(
        min_length=1,
        max_length=QUANTITY_TEXT_MAX,
        pattern=QUANTITY_PATTERN.replace("[+-]", "[+]", 1),
        json_schema_extra=published(
            unit="Kubernetes quantity", description="As in a manifest: 250m, 1.5Gi, 1e3."
        ),
    ),
]
#: Resource list as in a Kubernetes manifest.
ResourceList = ByResource[ResourceQuantity]
#: Labels or annotations.
StringMap = Annotated[
    dict[Annotated[str, Field(max_length=512)], Annotated[str, Field(max_length=262_144)]],
    Field(max_length=1_024, fail_fast=True),
]


class Part(BaseModel):
    """A part of a message: frozen, strict, without its own version."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="ignore",
        protected_namespaces=(),
        # A process uses few of the classes. Their validators are built at first use.
        defer_build=True,
    )


class Message(Part):
    """A record of a topic or a row of a table."""

    # A Literal would also accept true and 1.0.
    schema_version: Annotated[int, Field(ge=1, le=1, json_schema_extra={"const": 1})] = 1
    """Version of the message; readers refuse unknown versions."""
    record_time: ClassVar[str | None] = None
    """Field with the time of the message's record; None: the time of writing."""

    def payload(self) -> dict[str, Any]:
        """Return the message as plain values, without optional fields that are None."""
        return self.model_dump(mode="json", exclude_none=True)


class ClusterMessage(Message):
    """A message about one cluster."""

    cluster: ClusterName
