"""What every message has in common.

A message is frozen (it is a fact or a command, nobody edits it), strict (a string is no number) and
versioned. Readers are tolerant of fields that they do not know, so that a producer may be newer
than its reader; an unknown *version* is refused, because its fields may mean something else. The
types below carry their unit and their bounds into the published JSON Schema; the string under a
field is its description there.

Every integer fits into 64 bits, since anything else could be read but not written again, and every
sequence and map stops at its first bad item, since a record of a million bad items would otherwise
keep a worker busy for many seconds with the complaints about it.
"""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from schemas.base.quantities import QUANTITY_PATTERN, QUANTITY_TEXT_MAX

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

#: Most that one node or pod can use of a resource: an exbibyte is 2**60, and no machine has a
#: thousandth of one. Schemas take any 64-bit amount; what is summed is held to this, so that sums
#: over all pods of a node, and products with percentages, fit into 64 bits.
AMOUNT_MAX = 2**50

#: The beginnings of the years 2000 and 2100.
EPOCH_MS_MIN, EPOCH_MS_MAX = 946_684_800_000, 4_102_444_800_000

#: Neither "/", which separates the parts of a key, nor blanks and control characters.
NAME_PATTERN = r"^[^/\x00-\x20\x7f]+$"


def published(**keywords: str) -> Callable[[dict[str, Any]], None]:
    """Keywords for the published schema (unit, description); a field's own docstring goes before."""

    def add(schema: dict[str, Any]) -> None:
        for keyword, value in keywords.items():
            schema.setdefault(keyword, value)

    return add


#: A time in milliseconds since 1970-01-01 UTC, between the years 2000 and 2100: seconds or
#: microseconds given by mistake fall outside and are refused.
EpochMs = Annotated[
    int,
    Field(ge=EPOCH_MS_MIN, le=EPOCH_MS_MAX, json_schema_extra=published(unit="ms since 1970-01-01 UTC")),
]  # fmt: skip
#: A time of our own state, which may be 0 (before every record) or a sum.
StateMs = Annotated[
    int,
    Field(ge=0, le=INT64_MAX, json_schema_extra=published(unit="ms since 1970-01-01 UTC")),
]
#: A length of time in milliseconds, at most ten years.
DurationMs = Annotated[int, Field(ge=0, le=315_576_000_000, json_schema_extra=published(unit="ms"))]
#: How many, or which one of many.
Count = Annotated[int, Field(ge=0, le=INT64_MAX)]
#: Counts or positions by name.
Counts = Annotated[dict[str, Count], Field(fail_fast=True)]
#: Name of a cluster: part of every key, so it may not hold the separator "/".
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
#: What measures nodes, as it is called in metrics and messages.
SourceName = Annotated[str, Field(min_length=1, max_length=253)]
#: uid of a Kubernetes object.
Uid = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        json_schema_extra=published(
            description="metadata.uid: tells apart two objects of one name."
        ),
    ),
]
#: Name of a resource: cpu, memory, ephemeral-storage, nvidia.com/gpu ...
ResourceName = Annotated[str, Field(min_length=1, max_length=317, pattern=r"^[^\x00-\x20\x7f]+$")]
#: What is used or held: cpu in millicores, every other resource in its base unit (bytes, pieces).
ResourceAmounts = Annotated[
    dict[ResourceName, Annotated[int, Field(ge=0, le=INT64_MAX)]],
    Field(
        max_length=64,
        fail_fast=True,
        json_schema_extra=published(
            unit="cpu: millicores; every other resource: its base unit (bytes, pieces)"
        ),
    ),
]
#: A quantity as Kubernetes writes it: "250m", "1.5Gi", "1e3". `schemas.base.quantities` reads it.
QuantityText = Annotated[
    str, Field(min_length=1, max_length=QUANTITY_TEXT_MAX, pattern=QUANTITY_PATTERN)
]
#: A quantity that is not negative: nobody requests or offers less than nothing.
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
#: Most resources of one list.
RESOURCES_MAX = 64
#: Resource list as in a Kubernetes manifest.
ResourceList = Annotated[
    dict[ResourceName, ResourceQuantity], Field(max_length=RESOURCES_MAX, fail_fast=True)
]
#: Most labels, or annotations.
STRING_MAP_MAX = 1_024
#: Labels or annotations.
StringMap = Annotated[
    dict[Annotated[str, Field(max_length=512)], Annotated[str, Field(max_length=262_144)]],
    Field(max_length=STRING_MAP_MAX, fail_fast=True),
]


class Part(BaseModel):
    """A piece of a message: frozen and strict, without a version of its own."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="ignore",
        protected_namespaces=(),
        # A process uses a few of the classes, and builds their validators when it first does.
        defer_build=True,
    )


class Version:
    """One integer and nothing that merely equals it: a plain Literal takes true and 1.0 as well."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.int_schema(strict=True, ge=self._number, le=self._number)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "integer", "const": self._number}


class Message(Part):
    """A record of a topic or a row of a table."""

    schema_version: Annotated[int, Version(1)] = 1
    """Version of the message; a reader refuses one that it does not know."""

    def payload(self) -> dict[str, Any]:
        """The message as plain values, absent optionals left out (they read back as absent)."""
        return self.model_dump(mode="json", exclude_none=True)
