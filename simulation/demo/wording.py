"""The demo's words: times of the scenario, decisions and reasons in one short line."""

from datetime import UTC, datetime

from schemas.messages.decisions import PlacementDecision

_PREFIXES = ("node(s) ", "Node(s) ")


def clock_text(now_ms: int, begin_ms: int) -> str:
    """A time of the scenario: day and hour."""
    day = (now_ms - begin_ms) // 86_400_000 + 1
    return f"day {day}, {hour_text(now_ms)}"


def hour_text(at_ms: int) -> str:
    """The time of day."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M}"


def reason_text(reason: str) -> str:
    """A reason without what all of them begin with."""
    for prefix in _PREFIXES:
        reason = reason.removeprefix(prefix)
    return reason


def decision_text(decision: PlacementDecision, alike: int = 0) -> str:
    """A decision in words; `alike` more pods wait for the same reasons."""
    pod = decision.pod.name
    match decision.outcome:
        case "placed":
            score = f", score {decision.winner.total}" if decision.winner else ""
            before = f" before {decision.runners_up[0].node}" if decision.runners_up else ""
            refused = sum(decision.refused_by.values())
            rest = f"; {refused} of {decision.nodes} nodes refused" if refused else ""
            return f"{pod} → {decision.node}{score}{before}{rest}"
        case "waiting":
            counted = "; ".join(
                f"{count.nodes} {reason_text(count.reason)}" for count in decision.reasons[:2]
            )
            who = f"{pod} and {alike} more wait" if alike else f"{pod} waits"
            return f"{who}: {counted or decision.message}"
        case "refused":
            return f"{pod} is refused: {decision.message}"
        case "expired":
            return f"{pod}: the reservation on {decision.node} ran out"
        case "withdrawn":
            return f"{pod} is withdrawn: {decision.message}"
