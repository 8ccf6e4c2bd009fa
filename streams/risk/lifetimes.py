"""Usage of one pod over its lifetime: measured minutes, mean, deviation, and the recent average.

Lifetimes are extended by windows of usage. Two parts with n_a and n_b minutes, means a and b, and
deviations s_a and s_b are merged by the rule of Chan, Golub and LeVeque (1979):

    n    = n_a + n_b
    mean = a + (b - a) * n_b / n
    s^2  = (s_a^2 * n_a + s_b^2 * n_b + (b - a)^2 * n_a * n_b / n) / n

A lifetime counts at most one week: after that, each new window displaces as many older minutes.

A mean over days does not predict the next hour: usage depends on the time of day, and pods surge. So a
lifetime also has a recent average, which forgets within `recentMinutes`. For each pod, `lasting` is the share
of the average's distance from the mean that lasts until the next window. Let d be the usage of the next
window minus the mean, and e the recent average minus the mean:

    lasting = sum of d e / sum of e^2        (least squares through the origin, within 0 and 1)

Chance explains a part of `lasting`: with n windows, the variance v of usage and the mean s of e^2, `lasting`
has the variance v / (n s). The remaining part is

    believed = lasting (1 - v / (n s lasting^2))     (positive-part James-Stein, at least 0)

The expected mean is mean + believed e, and the expected variance is lower by believed^2 s. For a pod whose
usage fluctuates from window to window, the expected mean is the mean. Sums are means that forget after a
day. All numbers are integers, so every machine computes the same values.
"""

from collections.abc import Sequence
from math import isqrt
from typing import NamedTuple

from schemas.base.message import AMOUNT_MAX
from schemas.base.refusals import Refusal
from schemas.messages.metrics import NodeMetric

#: One week.
MINUTES_MAX = 10_080
#: Means and deviations are kept in thousandths of a unit.
PARTS = 1_000
#: Length of the window of averages in metrics; a lifetime is extended once per window.
WINDOW_MINUTES = 5
#: Figures of one resource in `Lifetime.recent`.
RECENT_FIGURES = 3
#: Mean and deviation in `Lifetime.usage` of a resource that was not measured.
NOT_MEASURED = -1
#: Memory of `lasting` and s: one day.
_MEMORY_MINUTES = 1_440
#: At least 1 / 4 of a variance is not explained by the recent average.
_UNEXPLAINED = 4
_MILLION = 1_000_000


class Lifetime(NamedTuple):
    minutes: int
    usage: tuple[int, ...]
    """Mean and standard deviation of each resource, in thousandths of its unit; length 2 resources."""
    recent: tuple[int, ...] = ()
    """Recent average, root of s (both in thousandths of the unit), and `lasting` in millionths, per
    resource; length 3 resources. Empty if the policy does not use recent averages."""


def start_lifetime(minutes: int, usage: Sequence[int]) -> Lifetime:
    """Return a lifetime of one window, with a deviation of 0.

    Args:
        minutes: length of the window.
        usage: mean usage of each resource in the window in units, or `NOT_MEASURED`.
    """
    figures: list[int] = []
    for mean in usage:
        figures += (mean * PARTS, 0) if mean >= 0 else (NOT_MEASURED, NOT_MEASURED)
    return Lifetime(minutes, tuple(figures))


def extend_lifetime(lifetime: Lifetime | None, minutes: int, usage: Sequence[int]) -> Lifetime:
    """Return the lifetime with one more window; None as lifetime starts a new one.

    Args:
        lifetime: usage before the window.
        minutes: length of the window, at least 1.
        usage: mean usage of each resource in the window in units. Figures of resources that are
            `NOT_MEASURED` do not change.
    """
    window = start_lifetime(minutes, usage)
    if lifetime is None:
        return window
    merged = merge_lifetimes(lifetime, window)
    if min(usage, default=0) >= 0:
        return merged
    figures = list(merged.usage)
    for index, mean in enumerate(usage):
        if mean < 0:
            figures[2 * index : 2 * index + 2] = lifetime.usage[2 * index : 2 * index + 2]
    return merged._replace(usage=tuple(figures))


def merge_lifetimes(older: Lifetime, newer: Lifetime) -> Lifetime:
    """Return the usage over both parts; `older` is shortened if both exceed a week together.

    If one part did not measure a resource, the figures are those of `newer`.
    """
    older_usage = older.usage
    newer_minutes, newer_usage, _ = newer
    older_minutes = max(0, min(older.minutes, MINUTES_MAX - newer_minutes))
    minutes = older_minutes + newer_minutes
    merged: list[int] = []
    for column in range(0, len(newer_usage), 2):
        older_mean, older_deviation = older_usage[column], older_usage[column + 1]
        newer_mean, newer_deviation = newer_usage[column], newer_usage[column + 1]
        if older_mean < 0 or newer_mean < 0:
            merged += (newer_mean, newer_deviation)
            continue
        difference = newer_mean - older_mean
        squares = older_deviation * older_deviation * older_minutes
        squares += newer_deviation * newer_deviation * newer_minutes
        squares += difference * difference * older_minutes * newer_minutes // minutes
        merged += (older_mean + difference * newer_minutes // minutes, isqrt(squares // minutes))
    return Lifetime(minutes, tuple(merged))


def update_recent(
    lifetime: Lifetime, minutes: int, usage: Sequence[int] | None, recent_minutes: int
) -> tuple[int, ...]:
    """Return `Lifetime.recent` after a window.

    Args:
        lifetime: usage before the window, or in the window if it is the first.
        minutes: length of the window, at least 1.
        usage: mean usage of each resource in the window in units, or `NOT_MEASURED`; None if nothing
            was measured.
        recent_minutes: time after which the recent average has forgotten most of a window, at least 1.
    """
    lifetime_minutes, lifetime_usage, before = lifetime
    if not before:
        for mean in lifetime_usage[::2]:
            before += (mean, 0, 0)
    if usage is None:
        return before
    remembered = min(lifetime_minutes, _MEMORY_MINUTES)
    # While the lifetime is shorter than `recent_minutes`, the recent average is its mean.
    horizon = max(minutes, min(recent_minutes, lifetime_minutes + minutes))
    recent: list[int] = []
    for index, used in enumerate(usage):
        mean = lifetime_usage[2 * index]
        average, root, lasting = before[RECENT_FIGURES * index : RECENT_FIGURES * (index + 1)]
        window_mean = used * PARTS
        if used < 0:
            recent += (average, root, lasting)
            continue
        if average < 0:
            recent += (window_mean, 0, 0)
            continue
        distance, squares = average - mean, root * root
        products = lasting * squares // _MILLION * remembered
        products += (window_mean - mean) * distance * minutes
        products //= remembered + minutes
        squares = (squares * remembered + distance * distance * minutes) // (remembered + minutes)
        root = isqrt(squares)
        recent += (
            average + (window_mean - average) * minutes // horizon,
            root,
            0 if root == 0 else max(0, min(products * _MILLION // (root * root), _MILLION)),
        )
    return tuple(recent)


def expect_usage(lifetime: Lifetime) -> Lifetime:
    """Return a lifetime whose mean and deviation are the expected ones."""
    minutes, usage, recent = lifetime
    if not recent:
        return lifetime
    windows = max(1, min(minutes, _MEMORY_MINUTES) // WINDOW_MINUTES)
    expected: list[int] = []
    for index in range(len(recent) // RECENT_FIGURES):
        mean, deviation = usage[2 * index], usage[2 * index + 1]
        if mean < 0:
            expected += (mean, deviation)
            continue
        average, root, lasting = recent[RECENT_FIGURES * index : RECENT_FIGURES * (index + 1)]
        variance = deviation * deviation
        believed = _compute_believed(lasting, variance, root * root * windows)
        explained = (believed * root // _MILLION) ** 2
        expected += (
            max(0, mean + (average - mean) * believed // _MILLION),
            isqrt(max(variance - explained, variance // _UNEXPLAINED)),
        )
    return Lifetime(minutes, tuple(expected))


def _compute_believed(lasting: int, variance: int, squares: int) -> int:
    """Return `believed` in millionths; `squares` is the sum of e^2 over all windows."""
    if not lasting or not squares:
        return 0
    return max(0, lasting - variance * _MILLION * _MILLION // (squares * lasting))


# --- lifetimes in metrics -----------------------------------------------------------------------


def check_lifetime_columns(metric: NodeMetric) -> Refusal | None:
    """Return a refusal that names the first lifetime column without one entry per pod."""
    if metric.lifetimes is None:
        return None
    columns: dict[str, Sequence[int]] = {"minutes": metric.lifetimes.minutes}
    columns |= {f"mean, {name}": column for name, column in metric.lifetimes.mean.items()}
    columns |= {f"deviation, {name}": column for name, column in metric.lifetimes.deviation.items()}
    pods = len(metric.pods)
    for name, column in columns.items():
        if len(column) != pods:
            reason = f"lifetimes, {name}: found {len(column)} entries; expected {pods}, one per pod"
            return Refusal("invalid", reason)
    return None


def read_lifetimes(metric: NodeMetric, resources: Sequence[str]) -> dict[tuple[str, str], Lifetime]:
    """Return the lifetimes in a metric by namespace and name of the pod.

    Pods without measured minutes, or without one of the resources, are left out.
    """
    columns = metric.lifetimes
    if columns is None or not columns.mean.keys() >= set(resources) <= columns.deviation.keys():
        return {}
    parts = [part[name] for name in resources for part in (columns.mean, columns.deviation)]
    lifetimes = {}
    for pod, minutes, *figures in zip(metric.pods, columns.minutes, *parts, strict=True):
        if minutes and min(figures, default=0) >= 0:
            usage = tuple([min(figure, AMOUNT_MAX) * PARTS for figure in figures])
            lifetimes[pod.namespace, pod.name] = Lifetime(min(minutes, MINUTES_MAX), usage)
    return lifetimes
