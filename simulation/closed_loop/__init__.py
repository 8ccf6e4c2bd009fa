"""Whole days of a cluster from seeds, decided by several policies and rules side by side.

    traces ─▶ scenario ─▶ world ◀─▶ contender ─▶ measures ─▶ comparison ─▶ report
                            ▲            │
                            usage        ├── stage_contender: both stages under a policy
                                         └── rule_contender: a rule of another scheduler

    parameters       everything that can be asked for, and the named scenarios
    traces           sizes and CPU, from files or a model
    system_usage     what nodes use themselves, from a file or a model
    scenario         nodes, pods, and what these will use
    world            the simulated cluster, step by step
    usage            what all pods use at a moment, as arrays
    samples          what agents on the nodes report
    stage_contender  a policy as a contender
    rule_contender   a rule as a contender; `rules` has rules of other schedulers
    contenders       who may be compared, by name; `policies` has built-in policies, as files
    measures         the result of a run
    runs             one after the other, or side by side
    finished_runs    finished runs in a directory
    comparison       all contenders with all days and seeds
    report           comparisons as sentences, tables, and pages
    chart            comparisons as SVG

Time is the log's: the same seed is the same run, but for the CPU time that it takes. No broker, no
network.
"""
