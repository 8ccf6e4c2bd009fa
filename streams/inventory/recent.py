"""What a pod, or a node's system part, used lately beyond the mean of its life, as far as that lasts.

A mean over days says nothing of the hour: a system part follows the course of the day, and a pod
surges. So an average is kept that forgets within `recentMinutes`, and it is learned of each of them
whether what was beyond the mean lately is so in the next window too: with d the next window's usage
less the mean, and e the recent average less the mean,

    lasting = sum of d e / sum of e^2        (least squares through the origin, within 0 and 1)

Of it is believed what chance does not explain: with n windows, the variance v of usage and the mean
s of e^2, chance alone gives `lasting` a variance of v / (n s), and it is taken as

    believed = lasting (1 - v / (n s lasting^2))     (positive-part James-Stein, at least 0)

The mean that is expected next is then mean + believed e, and the variance is less what that says of
it, believed^2 s. A pod whose usage goes up and down from one window to the next is taken by its mean
as before. Sums are means that forget after a day. All are integers.
"""

from collections.abc import Sequence
from math import isqrt

from streams.inventory.life import PARTS, Life

#: Of each resource: the recent average, the root of the mean of e^2 (both in thousandths of the
#: unit), and lasting, in millionths. Shape (3 resources,).
Recent = tuple[int, ...]

#: Figures of one resource.
FIGURES = 3
#: What is learned is forgotten within a day.
MEMORY_MINUTES = 1_440
#: The part of a variance that cannot be explained away: a quarter.
_UNEXPLAINED = 4
_MILLION = 1_000_000


def begun(life: Life) -> Recent:
    """Nothing is known beyond a life: its mean is the recent average."""
    recent: list[int] = []
    for index in range(1, len(life), 2):
        recent += (life[index], 0, 0)
    return tuple(recent)


def followed(
    before: Recent, life: Life, minutes: int, usage: Sequence[int], recent_minutes: int
) -> Recent:
    """The figures after a window.

    Args:
        before: the figures until then.
        life: the life until then.
        minutes: length of the window, at least 1.
        usage: mean usage in it of each resource, in units.
        recent_minutes: within which most of a window is forgotten, at least 1.
    """
    seen = min(life[0], MEMORY_MINUTES)
    # As long as a life is shorter, its mean is the recent average.
    horizon = max(minutes, min(recent_minutes, life[0] + minutes))
    recent: list[int] = []
    for index, used in enumerate(usage):
        mean = life[1 + 2 * index]
        average, root, lasting = before[FIGURES * index : FIGURES * (index + 1)]
        now = used * PARTS
        beyond, squares = average - mean, root * root
        both = (lasting * squares // _MILLION * seen + (now - mean) * beyond * minutes) // (
            seen + minutes
        )
        squares = (squares * seen + beyond * beyond * minutes) // (seen + minutes)
        root = isqrt(squares)
        recent += (
            average + (now - average) * minutes // horizon,
            root,
            0 if root == 0 else max(0, min(both * _MILLION // (root * root), _MILLION)),
        )
    return tuple(recent)


def ahead(life: Life, recent: Recent, window_minutes: int) -> Life:
    """A life as it is expected to go on: its mean and deviation with what lasts of the recent."""
    windows = max(1, min(life[0], MEMORY_MINUTES) // window_minutes)
    going_on = [life[0]]
    for index in range(len(recent) // FIGURES):
        mean, deviation = life[1 + 2 * index], life[2 + 2 * index]
        average, root, lasting = recent[FIGURES * index : FIGURES * (index + 1)]
        variance = deviation * deviation
        believed = _believed(lasting, variance, root * root * windows)
        explained = (believed * root // _MILLION) ** 2
        going_on += (
            max(0, mean + (average - mean) * believed // _MILLION),
            isqrt(max(variance - explained, variance // _UNEXPLAINED)),
        )
    return tuple(going_on)


def _believed(lasting: int, variance: int, squares: int) -> int:
    """What is believed of `lasting`, in millionths; `squares`: sum of e^2 over all windows."""
    if not lasting or not squares:
        return 0
    return max(0, lasting - variance * _MILLION * _MILLION // (squares * lasting))
