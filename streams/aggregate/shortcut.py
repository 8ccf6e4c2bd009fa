"""Reads samples of the common kind at a third of the cost of reading them by their contract.

Most samples are of a node that is known, name pods that are known, and say nothing unusual. Of such
a sample everything that the contract asks for is known already, because its names were read by the
contract before, or is asked here of all figures at once. Whatever else a record is, good or bad, is
left to the contract: the answer is none, which says nothing about the record. So a sample comes to
the same by either way, and which way it went shows nowhere.

Of a name that is given twice in a map the contract looks at both values, and what parses JSON here
at the last one alone: such a sample has more colons than fields.
"""

import zlib
from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import orjson
from pydantic import TypeAdapter, ValidationError

from schemas.base import DurationMs, EpochMs, ObjectName, SourceName
from schemas.limits import VALUE_BYTES_MAX
from schemas.usage import PODS_PER_SAMPLE_MAX
from streams.aggregate.node import NodeState
from streams.aggregate.percentile import UNKNOWN, Figures
from streams.aggregate.reading import Amounts, Member, SampleFigures

# What is read here, and not what the contract has: a field that is new there is unusual here.
_FIELDS = frozenset(
    (
        "schema_version", "cluster", "node", "pool", "sampled_at_ms", "interval_ms", "usage", "memory",
        "system_usage", "pods", "host_applications", "pressure", "source",
    )
)  # fmt: skip
_READINGS = frozenset(("usage_without_page_cache_bytes", "usage_with_page_cache_bytes"))
_PRESSED = frozenset(("cpu", "memory", "io"))
_KINDS = frozenset(("some", "full"))
_SHARES = ("avg10_bp", "avg60_bp", "avg300_bp")
_STALLED = frozenset((*_SHARES, "total_us"))
_POD = itemgetter("namespace", "name", "uid", "usage", "priority_class")
_POD_WITHOUT_CLASS = itemgetter("namespace", "name", "uid", "usage")
_MEMORY = itemgetter("memory")
#: Figures up to here can be added up for all pods of a sample without leaving 64 bits.
_FIGURE_MAX = 2**52

_OBJECT_NAME = TypeAdapter[str](ObjectName).validator
_SOURCE_NAME = TypeAdapter[str](SourceName).validator
_EPOCH_MS = TypeAdapter[int](EpochMs).validator
_DURATION_MS = TypeAdapter[int](DurationMs).validator


class _Unusual(Exception):
    """The sample is none of the common kind."""


def shortcut(
    value: bytes | None, node: NodeState, memory_field_of: Callable[[str | None], str]
) -> tuple[str | None, SampleFigures] | None:
    """Pool and figures of a sample of this node; none: it must be read by its contract.

    The figures of pods come as the matrix that the node would make of them. `memory_field_of`: the
    reading of memory that counts in a pool.
    """
    if value is None or len(value) > VALUE_BYTES_MAX:
        return None
    try:
        return _read(value, node, memory_field_of)
    except (_Unusual, ValidationError, LookupError, TypeError, ValueError, ArithmeticError):
        return None


def _read(
    value: bytes, node: NodeState, memory_field_of: Callable[[str | None], str]
) -> tuple[str | None, SampleFigures]:
    sample = orjson.loads(value)
    _require(type(sample) is dict and sample.keys() <= _FIELDS)
    _require(sample["cluster"] == node.cluster and sample["node"] == node.name)
    version = sample.get("schema_version", 1)
    _require(type(version) is int and version == 1 and sample.get("host_applications", []) == [])
    _DURATION_MS.validate_python(sample.get("interval_ms", 0), strict=True)
    at_ms = _EPOCH_MS.validate_python(sample["sampled_at_ms"], strict=True)
    pool = sample.get("pool")
    if pool is not None:
        _check_name(pool)
    source = sample.get("source")
    if source is not None:
        _check_source(source)
    memory_field = memory_field_of(pool)
    known = node.samples.resources
    usage = _amounts(sample["usage"], known)
    pods = sample.get("pods", [])
    _require(type(pods) is list and len(pods) <= PODS_PER_SAMPLE_MAX)
    fields = len(sample) + len(usage)
    if "memory" in sample:
        memory = _amounts(sample["memory"], _READINGS)
        fields += len(memory)
        if memory_field in memory:
            _require("memory" in known)
            usage = {**usage, "memory": memory[memory_field]}
    pressure = None
    if "pressure" in sample:
        pressure, pressure_fields = _shares(sample["pressure"])
        fields += pressure_fields
    members: list[tuple[Member, Amounts]] = []
    matrix: Figures | None = None
    rest = dict(usage)
    named = frozenset(usage)
    if pods:
        members, resources, figures, pod_fields = _pods(pods, memory_field)
        fields += len(pods) * pod_fields
        matrix = _matrix(node, members, resources, figures)
        for resource, total in zip(resources, np.add.reduce(figures).tolist(), strict=True):
            if resource in rest:
                rest[resource] -= total
        named = named.union(resources)
    given = sample.get("system_usage")
    if given is None:
        system: Amounts = {resource: max(amount, 0) for resource, amount in rest.items()}
    else:
        system = _amounts(given, known)
        fields += len(system)
        named = named.union(system)
    _require(value.count(b":") == fields)
    digest = zlib.crc32(value)
    return pool, SampleFigures(
        sampled_at_ms=at_ms,
        digest=digest,
        usage=usage,
        system=system,
        members=members,
        resources=named,
        columns=tuple(known),
        pressure=pressure,
        source=source,
        matrix=matrix,
    )


def _amounts(amounts: Any, known: Collection[str]) -> dict[str, int]:
    """Amounts that all have one of these names."""
    _require(type(amounts) is dict)
    for resource, amount in amounts.items():
        _require(resource in known and type(amount) is int and 0 <= amount <= _FIGURE_MAX)
    return amounts  # type: ignore[no-any-return]


def _shares(pressure: Any) -> tuple[dict[str, Any] | None, int]:
    """Pressure without its totals, and how many fields it has."""
    _require(type(pressure) is dict and pressure.keys() <= _PRESSED)
    fields = len(pressure)
    found: dict[str, Any] = {}
    for resource, kinds in pressure.items():
        _require(type(kinds) is dict and "some" in kinds and kinds.keys() <= _KINDS)
        fields += len(kinds)
        found[resource] = {}
        for kind, stalled in kinds.items():
            fields += len(_amounts(stalled, _STALLED))
            shares = {name: stalled[name] for name in _SHARES}
            _require(max(shares.values()) <= 10_000)
            found[resource][kind] = shares
    return found or None, fields


def _pods(
    pods: list[Any], memory_field: str
) -> tuple[list[tuple[Member, Amounts]], tuple[str, ...], Figures, int]:
    """Pods with their amounts, the resources that each has, the amounts of shape (pods, resources),
    and how many fields each pod has."""
    # All pods have as many fields, and these are among them, so they are these.
    (count,) = set(map(len, pods))
    has_memory = "memory" in pods[0]
    if count == 5 + has_memory:
        members = [((a, b, c, e), d) for a, b, c, d, e in map(_POD, pods)]
    elif count == 4 + has_memory:
        members = [((a, b, c, ""), d) for a, b, c, d in map(_POD_WITHOUT_CLASS, pods)]
    else:
        raise _Unusual
    resources, figures = _columns([amounts for _, amounts in members])
    fields = count + len(resources)
    if has_memory:
        readings, memory = _columns(list(map(_MEMORY, pods)))
        _require(_READINGS.issuperset(readings))
        fields += len(readings)
        if memory_field in readings:
            picked = memory[:, readings.index(memory_field)]
            members = [
                (member, {**amounts, "memory": amount})
                for (member, amounts), amount in zip(members, picked.tolist(), strict=True)
            ]
            if "memory" not in resources:
                resources = (*resources, "memory")
                figures = np.column_stack((figures, picked))
            figures[:, resources.index("memory")] = picked
    return members, resources, figures, fields


def _columns(amounts: list[dict[str, Any]]) -> tuple[tuple[str, ...], Figures]:
    """Names that all have, and the amounts, of shape (amounts, names)."""
    names = tuple(amounts[0])
    _require(set(map(len, amounts)) == {len(names)})
    lines = map(itemgetter(*names), amounts)
    figures = list(chain.from_iterable(lines) if len(names) > 1 else lines)
    # Numpy would take truth values for integers.
    _require(set(map(type, figures)) == {int})
    _require(min(figures) >= 0 and max(figures) <= _FIGURE_MAX)
    return names, np.array(figures, dtype=np.int64).reshape(len(amounts), len(names))


def _matrix(
    node: NodeState,
    members: list[tuple[Member, Amounts]],
    resources: tuple[str, ...],
    figures: Figures,
) -> Figures:
    """What `PodWindow.matrix` makes of members that are all known."""
    known = node.samples.resources
    matrix = np.empty((len(members), 1 + len(known)), dtype=np.int64)
    numbers = node.pods.numbers_of([member for member, _ in members])
    if numbers is None:
        raise _Unusual
    matrix[:, 0] = numbers
    if resources == tuple(known):
        matrix[:, 1:] = figures
    else:
        matrix[:, 1:] = UNKNOWN
        matrix[:, [1 + known.index(resource) for resource in resources]] = figures
    return matrix


@lru_cache(maxsize=4_096)
def _check_name(name: str) -> None:
    _OBJECT_NAME.validate_python(name, strict=True)


@lru_cache(maxsize=1_024)
def _check_source(name: str) -> None:
    _SOURCE_NAME.validate_python(name, strict=True)


def _require(holds: bool) -> None:
    if not holds:
        raise _Unusual
