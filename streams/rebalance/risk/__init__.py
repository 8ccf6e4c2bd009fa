"""OverutilizationRisk: moves that lower the risk of overutilization most.

moves   a round by risk: the pod whose move gains most leaves first
pods    pods of nodes at risk, the one first whose move may gain most
nodes   what nodes cost by that risk, as planned moves change them
record  how nodes stand, and what a round has found and planned
"""
