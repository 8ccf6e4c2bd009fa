"""Whole days of a cluster from a seed, decided by several policies and rules side by side.

    traces ─▶ scenario ─▶ world ◀─▶ contender ─▶ measures ─▶ comparison ─▶ report
                            ▲            │
                            usage        ├── streamed: both stages under a policy
                                         └── ruled: a rule of another scheduler

    parameters   everything that can be asked for       traces      sizes and CPU, from files or a model
    scenario     nodes, pods, and what these will use   usage       what all pods use at a moment, as arrays
    world        the simulated cluster, step by step    samples     what agents on the nodes report
    own          what nodes use themselves
    streamed     a policy as a contender
    rules        rules of other schedulers              ruled       a rule as a contender
    contenders   who may be compared, by name           measures    what a run came to
    runs         one after the other, or side by side   kept        finished runs in a directory
    comparison   all contenders with all seeds
    report       a sentence, tables, a page             chart       as SVG

`policies` holds the built-in policies, as files. Time is the log's: the same seed is the same run,
but for the CPU time that it takes. No broker, no network.
"""
