"""From "this pod should leave" to eviction commands, and to the end of the migration.

    candidates of a round ──┐
    users' requests ────────┼─▶ gates ─▶ Pending ─▶ arbitration ─▶ Running ─▶ eviction commands
    nodes being drained ────┘                                        │  ▲         and their outcomes
                                             room for the replacement, the replacement's own life

`Migrations` handles the migrations of one cluster as a fold: results depend only on the applied records
and their order, time is log time, and all state is in rows. It does not guarantee that a pod leaves. A
command may be refused, or a budget may stay exhausted: then the migration fails at its deadline and
reports the reason.

migrations         entry point: proposals, requests, outcomes and ticks
lifecycle          changes and reports migrations
registry           all migrations, and the numbers that limits count
requests           users' requests
drains             nodes that are being emptied
checks             all gates that stop or delay a migration, in their order
protections        which pods may never be evicted
limits             rates, budgets and other limits, and the objects that they depend on
arbitration        which waiting migrations may begin
execution          reserves room and sends eviction commands
replacement_rooms  room for replacement pods
tracking           outcomes, pods that leave, replacements, deadlines
move_events        passes moves to the history of moves
"""
