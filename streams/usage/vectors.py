"""Amounts over the resources of a policy, in ascending order of the resources' names."""

from collections.abc import Sequence

Vector = tuple[int, ...]

#: Value of a resource of unknown usage.
UNKNOWN = -(2**61)


def add(left: Vector, right: Vector) -> Vector:
    return tuple(map(int.__add__, left, right))


def subtract(left: Vector, right: Vector) -> Vector:
    return tuple(map(int.__sub__, left, right))


def sum_vectors(zero: Vector, vectors: Sequence[Vector]) -> Vector:
    """Return the sum per resource; `zero` is the sum of no vectors."""
    return tuple(map(sum, zip(*vectors, strict=True))) if vectors else zero
