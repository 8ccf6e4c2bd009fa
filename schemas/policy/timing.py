"""Times of a policy that end others before these can do what they say.

What ends too early still does something, now or for some nodes, so that it is neither refused nor
without effect.
"""

from collections.abc import Iterator

from schemas.policy.document import Policy
from schemas.policy.durations import format_duration_ms
from schemas.policy.plugins import OVERUTILIZATION_RISK
from schemas.policy.windows import open_minutes


def cut_short(policy: Policy) -> tuple[str, ...]:
    """A sentence each: both fields, what comes of it, what to do."""
    return (*_rest(policy), *_arbitration(policy), *_windows(policy))


def _rest(policy: Policy) -> Iterator[str]:
    rest_ms = policy.risk_moves.rest_minutes * 60_000
    window_ms = policy.moves.loop_window_seconds * 1_000
    by_risk = policy.plugins.balances(OVERUTILIZATION_RISK)
    if by_risk and policy.remembers_moves and rest_ms > window_ms:
        window = format_duration_ms(window_ms)
        yield (
            f"riskMoves.restMinutes is {policy.risk_moves.rest_minutes}, and moves.loopWindowSeconds "
            f"is {policy.moves.loop_window_seconds}: a move is forgotten {window} after the pod left, "
            "and then the pod that came by it rests no more; make loopWindowSeconds as long, or let "
            "pods rest for less"
        )


def _arbitration(policy: Policy) -> Iterator[str]:
    interval_ms = policy.migration.arbitration_args.interval_ms
    life_ms = policy.migration.default_job_ttl_ms
    if 0 < life_ms <= interval_ms:
        yield (
            f"migration.arbitrationArgs.interval is {format_duration_ms(interval_ms)}, and "
            f"migration.defaultJobTTL is {format_duration_ms(life_ms)}: migrations that begin after "
            "an arbitration may fail with Timeout before the next one; make defaultJobTTL longer, or "
            "arbitrate more often"
        )


def _windows(policy: Policy) -> Iterator[str]:
    """Windows of a pool or namespace all of which are closed while those of all pods are open."""
    maintenance = policy.maintenance
    open_to_all = open_minutes(maintenance.windows)
    entries = [
        *(("pools", "on its nodes", each.name, each.windows) for each in maintenance.pools),
        *(("namespaces", "in it", each.name, each.windows) for each in maintenance.namespaces),
    ]
    for alias, where, name, windows in entries:
        if maintenance.windows and windows and not open_minutes(windows) & open_to_all:
            yield (
                f"maintenance.{alias} {name!r} has no window that is open while one of "
                f"maintenance.windows is, and both must be: no pod {where} is ever evicted; let them "
                "overlap"
            )
