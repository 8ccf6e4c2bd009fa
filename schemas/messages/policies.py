"""`policies`: the whole policy of a cluster as text, and the pause switch.

The record keeps the document as its author wrote it. The topic is compacted, and only the newest
record of a cluster counts. Therefore a record that pauses a cluster repeats the document.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from schemas.base.message import ClusterMessage, EpochMs

#: Longest policy document: reading takes about one millisecond per kilobyte.
DOCUMENT_BYTES_MAX = 131_072
#: Longest name of a policy's author.
AUTHOR_MAX = 512


class PolicyRecord(ClusterMessage):
    """The policy of a cluster, in force from the moment the worker applies this record (key:
    cluster)."""

    record_time: ClassVar = "applied_at_ms"

    document: Annotated[str, Field(max_length=DOCUMENT_BYTES_MAX)]
    """YAML; empty: all defaults."""
    paused: bool = False
    """True: no decisions and no commands; requests wait."""
    applied_at_ms: EpochMs
    """When the author sent the policy."""
    applied_by: Annotated[str, Field(max_length=AUTHOR_MAX)] = ""
    """Sender: user@host, or the service account of a pod; empty: unknown."""
    reason: Annotated[str, Field(max_length=2_000)] = ""
    """Reason, in the author's words."""
