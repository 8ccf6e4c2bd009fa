"""Amounts over the resources of a policy, in ascending order of the resources' names."""

from collections.abc import Sequence

Vector = tuple[int, ...]

#: Stands for unknown usage of a resource.
UNKNOWN = -(2**61)


def plus(left: Vector, right: Vector) -> Vector:
    return tuple(map(int.__add__, left, right))


def minus(left: Vector, right: Vector) -> Vector:
    return tuple(map(int.__sub__, left, right))


def total(zero: Vector, vectors: Sequence[Vector]) -> Vector:
    """Return the sum per resource; `zero` is the sum of no vectors."""
    return tuple(map(sum, zip(*vectors, strict=True))) if vectors else zero
