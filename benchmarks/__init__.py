"""Benchmarks: `python -m benchmarks [NAME]` prints one JSON object per figure; `--list` names them.

    figures            the class of a figure, and the timing of calls

In one process, the decision core alone:

    placement          choosing a node, for a new and for a known kind of pod
    rebalance          a round of rebalancing
    worst_records, worst_ticks   the slowest record and tick of each kind, on a `dense_cluster`

Through a broker, with one worker as a separate process:

    messages           the messages of the producers
    rig                a broker with its topics, a worker, a sender and a receiver
    through_broker     throughput, latency, recovery after kill -9, memory

On a cluster, with the processes of `loadstream kubernetes`:

    cluster_rig        a real control plane, and the duties of `loadstream kubernetes`
    binding            bindings per second, compared with a bare client
    pod_latency        time from the creation of a pod to its binding
    fake_cluster       a fake API server with kubelets, for clusters too large for a real API server
    watch_and_collect  listing all pods, measuring all nodes, and the CPU of all processes

Other modules, which do not measure time:

    size               lines, words, topics, tables, fields, settings and commands, with their limits
    yardstick          compares digests of decisions with recorded digests
    publish            writes the figures into the documents
    reference          generates pages of docs/reference from the code

Each benchmark checks its result before it prints a figure: it compares computed values with a simpler
computation, and checks each record from a broker. Figures through a broker use a Kafka of one broker;
figures named `.embedded` use the embedded broker, in the process of the benchmark. Worker, broker and
benchmark share the machine, so `detail` has the CPU time of each.
"""
