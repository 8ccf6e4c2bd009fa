"""What a usage sample says once its node's collect policy has been applied.

The policy picks one of the memory readings, for the node, every pod and every host application
alike; where the picked one is missing the plain `memory` stands. The system part is what the sample
gives, or what is left of the node without its pods and host applications, at least 0. What is
missing stays unknown: a pod without a figure is no pod with 0.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.base.capacity import find_impossible
from schemas.messages.usage import MemoryDefinition, NodeUsage
from streams.aggregate.known_sample import KnownSample

Amounts = Mapping[str, int]
_SHARES = ("avg10_bp", "avg60_bp", "avg300_bp")


#: A pod or a host application: namespace, name, uid, priority class. Empty namespace: a host
#: application. A pod of the same name with another uid is another one. Thirty are made a sample: a
#: plain tuple is four times as fast as a named one.
Member = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFigures:
    """The figures of one sample."""

    sampled_at_ms: int
    digest: int
    """CRC-32 of the record's value: tells whether a sample of the same time is the same one."""
    usage: Amounts
    system: Amounts
    members: list[tuple[Member, Amounts]]
    """Pods, then host applications, in the order of the sample."""
    resources: frozenset[str]
    """Every resource of which there is any figure."""
    pressure: dict[str, Any] | None = None
    """Pressure on the node as a metric carries it; none: not measured."""
    memory_is: MemoryDefinition | None = None
    """What its figures of memory count; none: not said."""
    source: str | None = None
    """What measured it; none: not said."""
    node_created_at_ms: int = 0
    """When the node was added to the cluster; 0: not known."""

    def find_impossible(self, capacity: Amounts) -> str | None:
        """Say which amount a node of this capacity cannot have used."""
        parts = [self.usage, self.system, *[amounts for _, amounts in self.members]]
        most = {name: max([part.get(name, 0) for part in parts]) for name in capacity}
        return find_impossible(most, capacity)


def read(sample: NodeUsage | KnownSample, value: bytes, memory_field: str) -> SampleFigures:
    """The figures of a sample; `value` is its record, `memory_field` the reading that counts."""
    members = [
        (
            (pod.namespace, pod.name, pod.uid, pod.priority_class),
            pod.usage if pod.memory is None else _amounts(pod.usage, pod.memory, memory_field),
        )
        for pod in sample.pods
    ]
    members += [
        (
            ("", application.name, "", application.priority_class),
            _amounts(application.usage, application.memory, memory_field),
        )
        for application in sample.host_applications
    ]
    usage = _amounts(sample.usage, sample.memory, memory_field)
    if sample.system_usage is not None:
        system: Amounts = sample.system_usage
    else:
        system = _rest(usage, members)
    resources = frozenset().union(usage, system, *[amounts for _, amounts in members])
    return SampleFigures(
        sampled_at_ms=sample.sampled_at_ms,
        digest=zlib.crc32(value),
        usage=usage,
        system=system,
        members=members,
        resources=resources,
        pressure=_without_totals(sample),
        memory_is=_define_memory(sample, memory_field),
        source=sample.source,
        node_created_at_ms=sample.node_created_at_ms or 0,
    )


def _define_memory(sample: NodeUsage | KnownSample, memory_field: str) -> MemoryDefinition | None:
    """Return what the memory of a sample counts under the policy's reading.

    Without page cache a kubelet, whose plain figure is the working set, gives anonymous memory; an
    agent gives what is not available.
    """
    if sample.memory is None or getattr(sample.memory, memory_field) is None:
        return sample.memory_is
    if memory_field == "usage_with_page_cache_bytes":
        return "withPageCache"
    return "anonymous" if sample.memory_is == "workingSet" else sample.memory_is


def _without_totals(sample: NodeUsage | KnownSample) -> dict[str, Any] | None:
    """Shares alone: of one newest sample a total says nothing."""
    pressure = sample.pressure
    if pressure is None:
        return None
    shares: dict[str, Any] = {}
    for name, of in (("cpu", pressure.cpu), ("memory", pressure.memory), ("io", pressure.io)):
        if of is not None:
            shares[name] = {
                kind: {share: getattr(stalled, share) for share in _SHARES}
                for kind, stalled in (("some", of.some), ("full", of.full))
                if stalled is not None
            }
    return shares or None


def _amounts(usage: Amounts, memory: object | None, memory_field: str) -> Amounts:
    picked = None if memory is None else getattr(memory, memory_field)
    return usage if picked is None else {**usage, "memory": picked}


def _rest(usage: Amounts, members: list[tuple[Member, Amounts]]) -> Amounts:
    rest = dict(usage)
    for _, amounts in members:
        for resource, amount in amounts.items():
            if resource in rest:
                rest[resource] -= amount
    return {resource: max(amount, 0) for resource, amount in rest.items()}
