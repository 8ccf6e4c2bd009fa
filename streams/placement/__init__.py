"""Where a pod goes: requests in, decisions out.

request ─▶ cluster/placement ─▶ placer ─▶ ranking ─▶ filters, scores
               │                   └─▶ exclusions
               ├─▶ explain ─▶ decision, and its room is taken
               └─▶ pending ─▶ tried again when something changes

`streams.cluster.placement` decides about requests, since it joins this package and migrations: a
replacement gets the room that a migration holds for it.

pending            requests that wait for a node, by kind
placer             the best node for a kind of pod; looks only at nodes that have changed
ranking            what all filters and scores say of all nodes, for one kind of pod
exact_ranking      the same where the only score is fine enough to decide as it is
normalize          raw scores stretched to 0..100
avoided_nodes      nodes that pods are placed on last
least_overloaded   the score where the load filter has given way
exclusions         nodes that one owner's pods must stay away from
excluded_requests  pods that wait alone because of exclusions
reservations       when reservations end
unplaceable        pods that are not to be placed, whatever nodes there are
explain            decisions as messages
plugin             what a filter or a score is
registry           finds plugins; a policy enables, orders and weighs them
columns            columns of values that many nodes share
filters, scores    the plugins, one a module
"""
