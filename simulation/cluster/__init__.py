"""One simulated cluster, behind the ports that a real one has (`connectors.ports`).

    pods that ask ─▶ cluster ─▶ state_watch   lists, changes, requests
                     kubelet ◀─ sink          bindings, evictions
                     owners

    machines      nodes and their sizes
    pods          a pod, its requests and its life
    kubelet       pods on their nodes: they start, run, end
    owners        workloads, disruption budgets, replacements of evicted pods
    cluster       the cluster itself, with observers
    sink          binds and evicts
    state_watch   reports what there is
    connected     a cluster with watch, rules and sink joined to topics
    alibaba       the Alibaba 2018 trace of machines
    tracefiles    files of published traces

What pods use is not known here: see `simulation.closed_loop.usage`.
"""
