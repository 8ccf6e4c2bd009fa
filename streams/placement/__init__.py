"""Where a pod goes: requests in, decisions out.

request ─▶ placement ─▶ placer ─▶ ranking ─▶ plugins
               │           └─▶ exclusions
               ├─▶ explain ─▶ decision, and its room is taken
               └─▶ pending ─▶ tried again at ticks

placement          requests, outcomes and ticks in, decisions out
pending            requests that wait for a node, by kind
due_groups         the groups that one tick tries, each in its turn
effort             how much one tick may do for pods that wait
placer             the best node for a kind of pod; looks only at nodes that have changed
ranking            what all filters and scores say of all nodes, for one kind of pod
exact_ranking      the same where the only score is fine enough to decide as it is
normalize          raw scores stretched to 0..100
exclusions         nodes that one owner's pods must stay away from
excluded_requests  pods that wait alone because of exclusions
reservations       when reservations end, and room that is kept for a pod
unplaceable        pods that are not to be placed, whatever nodes there are
explain            decisions as messages
plugins            filters and scores, one a module
"""
