"""One simulated cluster with the command rules of a real one (`connectors.ports`).

    waiting pods ─▶ cluster ─▶ state_watch   lists, changes, requests
                    kubelet ◀─ sink          bindings, evictions
                    owners

    machines           nodes and their sizes
    pods               a pod with its requests and lifetime
    kubelet            pods on nodes: start, run and end
    owners             workloads, disruption budgets, replacements of evicted pods
    cluster            the cluster, with observers
    sink               binds and evicts
    state_watch        reports the state
    connected_cluster  a cluster with its watch, command rules and sink
    coroutines         runs a coroutine without an event loop

Usage of pods is in `simulation.closed_loop.usage`.
"""
