"""Policies of rounds, and what they are made of; cpu in percent of a node of ten cores."""

from schemas.policy.sections.rebalance import AnomalyCondition

#: Millicores of one percent of a node.
PERCENT = 100
INTERVAL_MS = 60_000

THRESHOLDS = """
rebalance:
  highThresholds: {cpu: 70}
  lowThresholds: {cpu: 40}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
"""
BY_RISK = """
plugins: {balance: [OverutilizationRisk]}
overutilizationRisk: {resources: [{name: cpu}]}
riskMoves: {minSavedMinutes: 9, maxMovesPerRound: 3}
"""


def by_thresholds(document: str) -> str:
    """The policy where pods move by thresholds alone, unless it says by what."""
    named = "plugins:" in document or "compat: koordinator" in document
    return document if named else f"{document}\nplugins: {{balance: [LowNodeLoad]}}\n"


def condition(abnormalities: int, normalities: int, timeout_ms: int = 60_000) -> AnomalyCondition:
    """When a node is abnormal, and when it is normal again."""
    return AnomalyCondition.model_construct(
        timeout_ms=timeout_ms,
        consecutive_abnormalities=abnormalities,
        consecutive_normalities=normalities,
    )
