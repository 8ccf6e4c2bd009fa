"""From "this pod should leave" to eviction commands, and to the end of the migration.

    candidates of a round ──┐
    users' requests ────────┼─▶ gates ─▶ Pending ─▶ arbitration ─▶ Running ─▶ room ─▶ eviction command
    drains ─────────────────┘                                                                │
                                 replacement ready ◀─ replacement bound ◀─ pod gone ◀─ outcome

`Migrations` handles the migrations of one cluster. Its results depend only on the applied records and their
order. Time is log time, and all state is in rows. A migration does not guarantee that the pod leaves: if
commands are refused or a budget stays exhausted, it fails at its deadline and reports the reason.

migrations         entry point: proposals, requests, outcomes and ticks
lifecycle          changes and reports migrations
registry           the migrations, and counts for limits
requests           users' requests
drains             nodes that are being drained
checks             gates that stop or delay a migration, in the order of the checks
protections        which pods may never be evicted
limits             rates, budgets and other limits, and the objects that they depend on
arbitration        which waiting migrations may begin
execution          reserves room and sends eviction commands
replacement_rooms  room for replacement pods
tracking           outcomes, pods that leave, replacements, deadlines
move_events        records migrations in the history of moves
"""
