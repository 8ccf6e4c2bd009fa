"""From "this pod should leave" to eviction commands, and to the end of the migration.

    candidates of a round ──┐
    users' requests ────────┼─▶ gates ─▶ Pending ─▶ arbitration ─▶ Running ─▶ eviction commands
    nodes being drained ────┘                                        │  ▲         and their outcomes
                                             room for the replacement, the replacement's own life

`Migrations` is the whole of it for one cluster, as a fold: what it answers depends on the records
applied and on their order, time is that of the log's ticks, and everything that a later answer
depends on is in a row. Not guaranteed: that a pod leaves. A command may be refused, a budget may
stay exhausted; then the migration fails at its deadline and says why.

migrations    the whole of it: proposals, requests, outcomes and time in
lifecycle     where migrations are changed and reported
registry      all migrations, with what limits count
proposal      what a round, a user or a drain proposes
requests      users' requests
drains        nodes that are being emptied
gates         what holds a migration back: limits, budgets, protections
arbitration   which waiting migrations may begin
execution     room, budget, rate, command
reservations  room for a replacement
tracking      outcomes, pods that leave, replacements, deadlines
move_events   what the memory of moves is told
"""
