"""Benchmarks: `python -m benchmarks [NAME]` prints one JSON object per figure; `--list` names them.

    figures            the class of a figure, and the timing of calls

In one process, the decision core alone:

    placement          choosing a node, for a new kind of pod and for a known one
    rebalance          a round of rebalancing
    worst_records, worst_ticks   the slowest record and tick of each kind, on a `dense_cluster`

Through a broker, with one worker in a process of its own:

    messages           the messages of the producers
    rig                a broker with its topics, a worker, a sender and a receiver
    through_broker     throughput, latency, recovery after kill -9, memory

On a cluster, with the processes of `loadstream kubernetes`:

    cluster_rig        a real control plane, and the duties of `loadstream kubernetes`
    binding            bindings a second, in turn with those of a bare client
    pod_latency        time from the creation of a pod to its binding
    played_cluster     an imitation of an API server and kubelets, for sizes too large for real ones
    watch_and_collect  listing all pods, measuring all nodes, and the CPU of all processes

Other modules, which do not measure time:

    size               lines, words, topics, tables, fields, settings and commands, with their limits
    yardstick          digests of decisions, compared with recorded ones
    publish            writes the figures into the documents
    reference          the pages of docs/reference that come from the code

Each benchmark checks its result before it prints a figure: it compares computed values with a simpler
computation, and checks records from a broker one by one. Figures through a broker are measured with a
Kafka of one broker; figures named `.embedded` with the embedded broker, in the process of the benchmark.
Worker, broker and benchmark share the machine, so `detail` has the CPU time of each.
"""
