"""The standard normal distribution on a fixed grid, with the same values on every machine.

The last bits of `math.erf` and `exp` depend on the C library, so a replay on another machine could differ.
Therefore the values are computed in decimal arithmetic, which is defined exactly, and rounded once to
doubles. Code that uses the table is limited to + - x / and sqrt, which IEEE 754 defines exactly.

Between grid points, the distribution Phi and the expected excess G(z) = phi(z) + z Phi(z) are extrapolated
by their derivatives: Phi' = phi, G' = Phi. The error is less than 2e-6 for Phi and 1e-8 for G. Above the
grid, the same formula gives 1 for Phi and z for G. Below the grid, both keep their first values, which are
almost 0.
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
_PI = Decimal("3.14159265358979323846264338327950288419716939937511")


class NormalTable(NamedTuple):
    """Values at the grid points, shape (LAST + 1,), float64."""

    distribution: FloatArray
    """Phi(z)."""
    step: FloatArray
    """phi(z) / STEPS: growth of Phi per step; 0 at the last point."""
    excess: FloatArray
    """G(z) = phi(z) + z Phi(z): mean of max(0, X + z) of a standard normal X."""


@cache
def get_normal_table() -> NormalTable:
    """Return the table; the first call computes it in about 0.1 s."""
    with localcontext(Context(prec=_DIGITS)):
        step = Decimal(1) / STEPS
        unit = (2 * _PI).sqrt()
        half = Decimal(1) / 2
        # By symmetry, only z >= 0 is computed. Phi grows by the integral of phi over a step. The integral is
        # that of the Taylor series of phi around the middle of the step, with even terms up to the fourth.
        upper, density, last = [half], [1 / unit], half
        for index in range(ZERO):
            middle = (index + half) * step
            square = middle * middle
            second_term = (square - 1) * step**2 / 24
            fourth_term = (square * square - 6 * square + 3) * step**4 / 1920
            last += (-square / 2).exp() / unit * step * (1 + second_term + fourth_term)
            edge = (index + 1) * step
            upper.append(last)
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
        return NormalTable(_to_doubles(distribution), _to_doubles(growth), _to_doubles(excess))


def _to_doubles(values: list[Decimal]) -> FloatArray:
    array: FloatArray = np.array([float(value) for value in values])
    array.setflags(write=False)
    return array
