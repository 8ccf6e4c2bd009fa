"""The standard normal distribution on a fixed grid, with equal numbers on every processor.

The last bits of `math.erf` and `exp` depend on the C library, so a replay on another machine could differ.
Therefore the values are computed in decimal arithmetic, whose results are exactly defined, and rounded once
to doubles. Code that uses them is limited to + - x / and sqrt, which IEEE 754 defines exactly. A test
compares the table with its digest and with `math.erf`.

Between grid points, the distribution Phi and the expected excess G(z) = phi(z) + z Phi(z) are extrapolated
by their derivatives: Phi' = phi, G' = Phi. The error is less than 2e-6 for Phi and 1e-8 for G. After the end
of the grid Phi is 1 and G is z, by the same formula. Before its beginning both keep their first values,
which are almost 0.
"""

from decimal import Context, Decimal, localcontext
from functools import cache
from typing import NamedTuple

import numpy as np

from streams.stage.arrays import FloatArray

#: Grid points for each unit of z; a power of 2, so that scaling is exact.
STEPS = 256
#: The grid goes from -REACH to REACH.
REACH = 8
#: Index of the last grid point; z = 0 is at ZERO.
LAST, ZERO = 2 * REACH * STEPS, REACH * STEPS

_DIGITS = 40


class NormalTable(NamedTuple):
    """Values at the grid points, shape (LAST + 1,), float64."""

    distribution: FloatArray
    """Phi(z)."""
    step: FloatArray
    """phi(z) / STEPS: growth of Phi over a step; 0 at the last point."""
    excess: FloatArray
    """G(z) = phi(z) + z Phi(z): mean of max(0, X + z) of a standard normal X."""


@cache
def normal_table() -> NormalTable:
    """Return the table; the first call computes it in about 0.1 s."""
    with localcontext(Context(prec=_DIGITS)):
        step = Decimal(1) / STEPS
        unit = (2 * _pi()).sqrt()
        half = Decimal(1) / 2
        # By symmetry, only z >= 0 is computed. Phi grows by the integral of phi over a step: of its Taylor
        # series around the middle of the step, with even terms up to the fourth.
        upper, density, beyond = [half], [1 / unit], half
        for index in range(ZERO):
            middle = (index + half) * step
            square = middle * middle
            second_term = (square - 1) * step**2 / 24
            fourth_term = (square * square - 6 * square + 3) * step**4 / 1920
            beyond += (-square / 2).exp() / unit * step * (1 + second_term + fourth_term)
            edge = (index + 1) * step
            upper.append(beyond)
            density.append((-edge * edge / 2).exp() / unit)
        above = [
            d + index * step * p for index, (d, p) in enumerate(zip(density, upper, strict=True))
        ]
        # G(-z) = G(z) - z.
        below = [value - index * step for index, value in enumerate(above)]
        distribution = [1 - p for p in reversed(upper[1:])] + upper
        excess = below[:0:-1] + above
        growth = [d * step for d in (*density[:0:-1], *density)]
        # After the last point, Phi = 1 and G = z.
        distribution[-1], growth[-1], excess[-1] = Decimal(1), Decimal(0), Decimal(REACH)
        return NormalTable(_doubles(distribution), _doubles(growth), _doubles(excess))


def _doubles(values: list[Decimal]) -> FloatArray:
    array: FloatArray = np.array([float(value) for value in values])
    array.setflags(write=False)
    return array


def _pi() -> Decimal:
    # Machin's formula.
    return 4 * (4 * _arctan_of_one_over(5) - _arctan_of_one_over(239))


def _arctan_of_one_over(number: int) -> Decimal:
    power = total = Decimal(1) / number
    odd, sign = 1, -1
    while power.adjusted() > -_DIGITS - 5:
        power /= number * number
        odd += 2
        total += sign * power / odd
        sign = -sign
    return total
