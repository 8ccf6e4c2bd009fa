"""Benchmarks: `python -m benchmarks [NAME]` prints one JSON object per figure; `--list` names them.

    figures            what a figure is, and how calls are timed

In one process, the decision core alone:

    placement          choosing a node, for a new kind of pod and for a known one
    rebalance          a round of rebalancing
    worst_records, worst_ticks   the slowest record and tick of each kind, on a `dense_cluster`

Through a broker, with one worker in a process of its own:

    messages           what producers send
    rig                the broker with its topics, the worker, records in and out
    through_broker     throughput, latency, recovery after kill -9, memory

On a cluster, with the processes of `loadstream kubernetes`:

    cluster_rig        a real control plane beside the broker, and the duties
    binding            bindings a second, in turn with those of a bare client
    pod_latency        time from the creation of a pod to its binding
    played_cluster     an API server and kubelets for sizes that no real one has room for here
    watch_and_collect  listing all pods, measuring all nodes, and the CPU of all processes

What does not measure time:

    size               lines, words, topics, tables, fields, settings and commands, with their limits
    yardstick          digests of decisions, compared with recorded ones
    publish            writes the figures into the documents
    reference          the pages of docs/reference that come from the code

Each benchmark checks its result before it prints a figure: computed values against the plain way of
computing them, records from a broker one by one. Figures through a broker are taken on a real Kafka of
one broker; names with `.embedded` on the broker inside this process. Worker, broker and the measuring
side share the machine, so `detail` has the CPU time of each.
"""
