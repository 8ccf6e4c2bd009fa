"""Decodes the samples of known nodes and pods faster than their pydantic class does.

A typed decoder checks types and ranges, also those of values that a later one of the same name
replaces. Names are compared with those of earlier samples, which the pydantic class has accepted.
For every other sample the result is None, which says nothing about it: the pydantic class decodes
it, and it alone writes refusals. A decoded sample equals the one that the pydantic class makes.
"""

from collections.abc import Container, Iterable
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from pydantic import TypeAdapter, ValidationError

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.base.message import EPOCH_MS_MAX, EPOCH_MS_MIN, ObjectName, SourceName
from schemas.messages.usage import (
    HOST_APPLICATIONS_PER_SAMPLE_MAX,
    PODS_PER_SAMPLE_MAX,
    MemoryDefinition,
)

_Amount = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Share = Annotated[int, Meta(ge=0, le=10_000)]
_DAY_MS = 86_400_000

_OBJECT_NAME = TypeAdapter[str](ObjectName)
_SOURCE_NAME = TypeAdapter[str](SourceName)


class _Part(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    pass


class _Memory(_Part):
    usage_without_page_cache_bytes: _Amount | None = None
    usage_with_page_cache_bytes: _Amount | None = None


class _Stalled(_Part):
    avg10_bp: _Share
    avg60_bp: _Share
    avg300_bp: _Share
    total_us: _Amount | None = None


class _ResourcePressure(_Part):
    some: _Stalled
    full: _Stalled | None = None


class _Pressure(_Part):
    cpu: _ResourcePressure | None = None
    memory: _ResourcePressure | None = None
    io: _ResourcePressure | None = None


class _Pod(_Part):
    # Without a namespace it would pass for a host application of the same name.
    namespace: Annotated[str, Meta(min_length=1)]
    name: str
    uid: str
    usage: dict[str, _Amount]
    memory: _Memory | None = None
    priority_class: str = ""


class _HostApplication(_Part):
    name: str
    usage: dict[str, _Amount]
    memory: _Memory | None = None
    priority_class: str = ""


class KnownSample(_Part):
    """A `NodeUsage` whose names are all known."""

    cluster: str
    node: str
    sampled_at_ms: Annotated[int, Meta(ge=EPOCH_MS_MIN, le=EPOCH_MS_MAX)]
    usage: dict[str, _Amount]
    schema_version: Literal[1] = 1
    pool: str | None = None
    interval_ms: Annotated[int, Meta(ge=0, le=_DAY_MS)] = 0
    memory: _Memory | None = None
    memory_is: MemoryDefinition | None = None
    system_usage: dict[str, _Amount] | None = None
    pods: Annotated[list[_Pod], Meta(max_length=PODS_PER_SAMPLE_MAX)] = []
    host_applications: Annotated[
        list[_HostApplication], Meta(max_length=HOST_APPLICATIONS_PER_SAMPLE_MAX)
    ] = []
    pressure: _Pressure | None = None
    capacity: dict[str, _Amount] | None = None
    node_created_at_ms: Annotated[int, Meta(ge=EPOCH_MS_MIN, le=EPOCH_MS_MAX)] | None = None
    source: str | None = None


_DECODER = msgspec.json.Decoder(KnownSample)


def decode_known(
    value: bytes | None,
    cluster: str,
    node: str,
    members: Container[tuple[str, str, str, str]],
    resources: Iterable[str],
) -> KnownSample | None:
    """Decode a sample of a node, or return None if anything about it is new or doubtful.

    Args:
        value: the record's value.
        cluster: name of the node's cluster.
        node: its name.
        members: namespace, name, uid and priority class of the pods and host applications of
            earlier samples; the namespace and uid of a host application are empty.
        resources: names of the resources of earlier samples.
    """
    if value is None or len(value) > VALUE_BYTES_MAX:
        return None
    try:
        sample = _DECODER.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if sample.cluster != cluster or sample.node != node:
        return None
    if not (_is_valid_pool(sample.pool) and _is_valid_source(sample.source)):
        return None
    known = set(resources)
    usages = [sample.usage, sample.system_usage or {}, sample.capacity or {}]
    for pod in sample.pods:
        if (pod.namespace, pod.name, pod.uid, pod.priority_class) not in members:
            return None
        usages.append(pod.usage)
    for application in sample.host_applications:
        if ("", application.name, "", application.priority_class) not in members:
            return None
        usages.append(application.usage)
    return sample if all(map(known.issuperset, usages)) else None


@lru_cache(maxsize=4_096)
def _is_valid_pool(name: str | None) -> bool:
    return name is None or _accepts(_OBJECT_NAME, name)


@lru_cache(maxsize=1_024)
def _is_valid_source(name: str | None) -> bool:
    return name is None or _accepts(_SOURCE_NAME, name)


def _accepts(adapter: TypeAdapter[str], name: str) -> bool:
    try:
        adapter.validate_python(name, strict=True)
    except ValidationError:
        return False
    return True
