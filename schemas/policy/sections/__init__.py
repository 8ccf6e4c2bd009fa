"""The sections of a policy, one module each.

plugins               enabled plugins and their weights
load_aware            `loadAware`: filter and score by usage
resource_limits       `resourceLimits`: score by limits
resources_fit         `resourcesFit` and `balancedAllocation`: scores by requests
overutilization_risk  `overutilizationRisk`: score by the risk that a node becomes hot
risk_moves            `riskMoves`: moves by that risk
collect               `collect`: windows and percentiles of node metrics
rebalance             `rebalance`: LowNodeLoad
moving_thresholds     `movingThresholds`: thresholds by time of the week
moves                 `moves`: memory of moves
evictor               `evictor`: which pods may be evicted
migration             `migration`: how pods are moved, with `skipEvictionGates`
descheduling          `descheduling`: limits of all plugins that move pods
maintenance           `maintenance`: times at which pods may be moved
"""
