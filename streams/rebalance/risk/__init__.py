"""OverutilizationRisk: moves that lower the risk of overutilization most.

moves    a round by risk: the pod whose move gains most leaves first
pods     pods of nodes at risk, ordered by the possible gain of their moves
nodes    costs of nodes, which planned moves change
results  the results of a round
"""
