"""Compares policies and placement rules on whole simulated days of a cluster, drawn from seeds.

    traces ─▶ scenario ─▶ world ◀─▶ contender ─▶ measures ─▶ comparison ─▶ report
                            ▲            │
                            usage        ├── stage_contender: both stages under a policy
                                         └── rule_contender: a rule of another scheduler

    parameters       parameters of a run
    trace_files      files of published traces
    traces           sizes and CPU, from files or a model
    system_usage     usage of the nodes themselves, from a file or a model
    scenario         nodes, pods and their demand
    world            the simulated cluster, step by step
    usage            usage of all pods at a time, as arrays
    stage_contender  a policy as a contender
    rule_contender   a rule as a contender; `rules` has rules of other schedulers
    contenders       contenders by name; `policies` has the built-in policies
    measures         the result of a run
    runs             executes runs, sequentially or in several processes
    finished_runs    finished runs in a directory
    comparison       compares all contenders on all days and seeds
    report           comparisons as sentences, tables, pages and charts

Time is simulated, and there is no broker and no network. So the same seed gives the same run, except
for its CPU time.
"""
