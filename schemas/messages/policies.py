"""`policies`: a cluster's whole policy, as text, with its switches.

The record carries the document as its author wrote it, so that what was meant is kept beside what
it came to. The topic is compacted: the newest record of a cluster is all that holds, which is why
pausing repeats the document.
"""

from typing import Annotated

from pydantic import Field

from schemas.base.message import ClusterName, EpochMs, Message

#: Longest policy document: reading one takes about a millisecond a kilobyte.
DOCUMENT_BYTES_MAX = 131_072
#: Longest name of who applied a policy.
AUTHOR_MAX = 512


class PolicyRecord(Message):
    """The policy of a cluster from the moment at which the agent applies this record (key:
    cluster)."""

    cluster: ClusterName
    document: Annotated[str, Field(max_length=DOCUMENT_BYTES_MAX)]
    """YAML; empty means all defaults."""
    paused: bool = False
    """Paused: nothing is decided and no command is emitted; requests wait."""
    applied_at_ms: EpochMs
    """When its author sent it."""
    applied_by: Annotated[str, Field(max_length=AUTHOR_MAX)] = ""
    """Who sent it: user@host, or the service account of a pod; empty: not said."""
    reason: Annotated[str, Field(max_length=2_000)] = ""
    """Why, in its author's words."""
