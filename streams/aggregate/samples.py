"""Decodes usage samples, and extracts their figures by the node's collect policy.

The policy selects one of the memory readings for the node, all pods and all host applications. If that
reading is missing, plain `memory` counts. If a sample has no system part, it is computed: the node's usage
without its pods and host applications, at least 0. Missing figures stay unknown. Pods and host applications
with memory 0 are starting or ending, and are ignored.

`decode_known` decodes samples of known nodes and pods faster than pydantic does. Its typed decoder
checks types and ranges, and accepts only names of earlier samples, which pydantic has accepted. For any other
sample it returns None, and pydantic decodes or refuses the sample. Both decoders return equal samples.
"""

import zlib
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from pydantic import TypeAdapter, ValidationError

from schemas.base.capacity import ZERO_POINT, find_impossible, is_zero_point
from schemas.base.limits import VALUE_BYTES_MAX
from schemas.base.message import (
    AMOUNT_MAX,
    EPOCH_MS_MAX,
    EPOCH_MS_MIN,
    INT64_MAX,
    ObjectName,
    SourceName,
)
from schemas.messages.usage import (
    HOST_APPLICATIONS_PER_SAMPLE_MAX,
    PODS_PER_SAMPLE_MAX,
    MemoryDefinition,
    NodeFacts,
    NodeUsage,
)

_Amount = Annotated[int, Meta(ge=0, le=AMOUNT_MAX)]
_Capacity = Annotated[int, Meta(ge=0, le=INT64_MAX)]
_DAY_MS = 86_400_000

_POOL = TypeAdapter[str | None](ObjectName | None)
_SOURCE = TypeAdapter[str | None](SourceName | None)


class _Part(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    pass


class _Memory(_Part):
    usage_without_page_cache_bytes: _Amount | None = None
    usage_with_page_cache_bytes: _Amount | None = None


class _Pod(_Part):
    # A pod without namespace would be taken for a host application.
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
    """A `NodeUsage` with known names only."""

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
    capacity: dict[str, _Capacity] | None = None
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
    """Decode a sample of a known node; return None if anything in the sample is new or invalid.

    Args:
        value: value of the record.
        cluster: cluster of the node.
        node: name of the node.
        members: the `Member`s of earlier samples.
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
    if not (_is_valid(_POOL, sample.pool) and _is_valid(_SOURCE, sample.source)):
        return None
    resource_names = set(resources)
    usages = [sample.usage, sample.system_usage or {}, sample.capacity or {}]
    for pod in sample.pods:
        if (pod.namespace, pod.name, pod.uid, pod.priority_class) not in members:
            return None
        usages.append(pod.usage)
    for application in sample.host_applications:
        if ("", application.name, "", application.priority_class) not in members:
            return None
        usages.append(application.usage)
    return sample if all(map(resource_names.issuperset, usages)) else None


@lru_cache(maxsize=4_096)
def _is_valid(adapter: TypeAdapter[str | None], name: str | None) -> bool:
    try:
        adapter.validate_python(name, strict=True)
    except ValidationError:
        return False
    return True


Amounts = Mapping[str, int]

#: A pod or a host application: namespace, name, uid, priority class. Namespace and uid of a host
#: application are empty. A plain tuple, because a named one takes four times as long to create.
Member = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFigures:
    """The figures of one sample."""

    sampled_at_ms: int
    digest: int
    """CRC-32 of the record's value: tells a repeated sample from a different one of the same time."""
    usage: Amounts
    system: Amounts
    members: list[tuple[Member, Amounts]]
    """Pods, then host applications, in the order of the sample."""
    unmeasured_pods: int
    """Number of pods and host applications that are ignored because of memory 0."""
    resources: frozenset[str]
    """Resources with at least one figure."""
    facts: dict[str, Any]
    """The fields of `NodeFacts` that the sample has."""
    node_created_at_ms: int = 0
    """When the node was added to the cluster; 0: unknown."""

    def find_impossible(self, capacity: Amounts) -> str | None:
        """Describe an amount that exceeds the capacity of the node; None if there is none."""
        if is_zero_point(self.usage):
            return ZERO_POINT
        parts = [self.usage, self.system, *[amounts for _, amounts in self.members]]
        most = {name: max([part.get(name, 0) for part in parts]) for name in capacity}
        return find_impossible(most, capacity)


def extract_figures(
    sample: NodeUsage | KnownSample, value: bytes, memory_field: str
) -> SampleFigures:
    """Return the figures of a sample.

    Args:
        sample: the decoded sample.
        value: value of its record.
        memory_field: field of `MemoryReadings` that counts as memory.
    """
    members = [
        (
            (pod.namespace, pod.name, pod.uid, pod.priority_class),
            pod.usage
            if pod.memory is None
            else _select_memory(pod.usage, pod.memory, memory_field),
        )
        for pod in sample.pods
    ]
    members += [
        (
            ("", application.name, "", application.priority_class),
            _select_memory(application.usage, application.memory, memory_field),
        )
        for application in sample.host_applications
    ]
    running = [member for member in members if not is_zero_point(member[1])]
    unmeasured_pods, members = len(members) - len(running), running
    usage = _select_memory(sample.usage, sample.memory, memory_field)
    system = sample.system_usage
    if system is None:
        system = _subtract_members(usage, members)
    facts = {name: getattr(sample, name) for name in NodeFacts.model_fields}
    facts["memory_is"] = _define_memory(sample, memory_field)
    return SampleFigures(
        sampled_at_ms=sample.sampled_at_ms,
        digest=zlib.crc32(value),
        usage=usage,
        system=system,
        members=members,
        unmeasured_pods=unmeasured_pods,
        resources=frozenset().union(usage, system, *[amounts for _, amounts in members]),
        facts={name: value for name, value in facts.items() if value is not None},
        node_created_at_ms=sample.node_created_at_ms or 0,
    )


def _define_memory(sample: NodeUsage | KnownSample, memory_field: str) -> MemoryDefinition | None:
    """Return the definition of the selected memory reading.

    Without page cache, a kubelet (whose plain figure is the working set) reports anonymous memory;
    an agent reports memory that is not available.
    """
    if sample.memory is None or getattr(sample.memory, memory_field) is None:
        return sample.memory_is
    if memory_field == "usage_with_page_cache_bytes":
        return "withPageCache"
    return "anonymous" if sample.memory_is == "workingSet" else sample.memory_is


def _select_memory(usage: Amounts, memory: object | None, memory_field: str) -> Amounts:
    selected = None if memory is None else getattr(memory, memory_field)
    return usage if selected is None else {**usage, "memory": selected}


def _subtract_members(usage: Amounts, members: list[tuple[Member, Amounts]]) -> dict[str, int]:
    remaining = dict(usage)
    for _, amounts in members:
        for resource, amount in amounts.items():
            if resource in remaining:
                remaining[resource] -= amount
    return {resource: max(amount, 0) for resource, amount in remaining.items()}
