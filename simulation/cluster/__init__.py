"""One simulated cluster, behind the ports that a real one has (`connectors.ports`).

    load, fitted, replay, surges ─▶ readings ─┐               ┌─▶ usage        samples
    workload, openb, pods ─▶ pods that ask ───┼─▶ cluster ────┼─▶ state_watch  lists, changes, requests
    machines ─▶ nodes and their first pods ───┘  kubelet      └── sink         bindings, evictions
                                                 owners

    machines      nodes, their sizes, and the pods that run on them already
    load          what machines use: a seeded model       fitted    its parameters
    fit           fits the parameters to a trace          surges    pods that use more for hours
    replay        readings of traced machines             readings  base load in the order of time
    alibaba       the Alibaba 2018 trace of machines      openb     the OpenB list of tasks
    tracefiles    files of published traces
    pods          a pod, its requests and its usage       workload  a seeded stream of pods
    kubelet       pods on their nodes: they start, run, end
    owners        workloads, disruption budgets, replacements of evicted pods
    cluster       the cluster itself, with observers
    sink          binds and evicts                        state_watch  reports what there is
    usage         measures the nodes
    connected     a cluster with watch, rules and sink joined to topics
    continuous    a simulation without end                commands  `loadstream simulate`
    baseline      the same pods with another choice of nodes: baseline_requests, by requests alone;
                  baseline_no_eviction, never evicted

The same seed gives the same cluster, the same load and the same pods. Only `commands` speaks to Kafka.
"""
