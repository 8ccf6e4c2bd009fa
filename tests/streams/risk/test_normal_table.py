import hashlib
import math

import numpy as np

from streams.risk.normal_table import LAST, STEPS, ZERO, get_normal_table

_Z = (np.arange(LAST + 1) - ZERO) / STEPS


def _distribution(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def test_the_table_is_the_same_to_the_byte_on_every_machine() -> None:
    digest = hashlib.sha256()
    for column in get_normal_table():
        digest.update(column.astype("<f8").tobytes())
    assert digest.hexdigest()[:32] == "269094d59737221f482f2efc492d6b5b"


def test_grid_points_are_those_of_the_error_function() -> None:
    table = get_normal_table()
    expected = np.array([_distribution(z) for z in _Z.tolist()])
    assert np.abs(table.distribution - expected).max() < 2e-15
    density = np.array([_density(z) for z in _Z.tolist()])
    assert np.abs(table.step * STEPS - density).max() < 2e-14
    assert np.abs(table.excess - (density + _Z * expected)).max() < 2e-14


def test_the_last_piece_has_no_end() -> None:
    table = get_normal_table()
    assert (table.distribution[-1], table.step[-1], table.excess[-1]) == (1.0, 0.0, 8.0)
