"""The sections of a policy, each in the module of its name.

plugins               which plugins are on, and their weights
load_aware            `loadAware`: filter and score by usage
resource_limits       `resourceLimits`
resources_fit         `resourcesFit` and `balancedAllocation`
overutilization_risk  `overutilizationRisk`: score by the risk that a node becomes hot
risk_moves            `riskMoves`: moves by that risk
collect               `collect`: windows and percentiles of node metrics
rebalance             `rebalance`: LowNodeLoad
moving_thresholds     `movingThresholds`: thresholds by time of the week
moves                 `moves`: what is remembered of moves
evictor               `evictor`: which pods may be evicted
migration             `migration`: how pods leave, with `skipEvictionGates`
descheduling          `descheduling`: limits over all plugins that move pods
maintenance           `maintenance`: times at which pods may be moved
"""
