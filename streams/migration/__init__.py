"""From "this pod should leave" to eviction commands, and what becomes of them.

    candidates of a round ──┐
    users' requests ────────┼─▶ gates ─▶ Pending ─▶ arbitration ─▶ Running ─▶ eviction commands
    nodes being drained ────┘                                        │  ▲         and their outcomes
                                             room for the replacement, the replacement's own life

`Migrations` is the whole of it for one cluster, as a fold: what it answers depends on the records applied
and on their order, time is that of the log's ticks, and everything that a later answer depends on is in
a row. What is not guaranteed: that a pod leaves. A command may be refused, a budget may stay exhausted;
then the migration fails at its deadline and says why.
"""
