"""Chooses nodes for pods: requests in, decisions out.

request ─▶ cluster/placement ─▶ placer ─▶ ranking ─▶ filters, scores
               ├─▶ explain ─▶ decision, and a reservation on the node
               └─▶ pending ─▶ another attempt after a change or a back-off

`streams.cluster.placement` handles requests, because it combines this package with migrations: a
replacement pod gets the room that a migration holds for it.

pending            requests that wait for a node, grouped by kind of pod
placer             chooses the best node that is not excluded for the pod; recomputes changed nodes only
ranking            results of all filters and scores for one kind of pod
excluded_requests  pods that wait alone because of exclusions
explain            decisions as messages
plugin             base classes of filters and scores
registry           finds plugins by name
columns            columns of values that many nodes share
filters, scores    the plugins, one per module
"""
