"""Benchmarks: `python -m benchmarks [NAME]` prints one JSON object a figure; `--list` names them.

    figures      what a figure is, and how calls are timed

The decision core by itself, in one process:

    clusters     synthetic clusters, put together through the records that the agent would apply
    placement    choosing a node: a new kind of pod, and one more of a known kind
    rebalance    a round of rebalancing: who is hot, who leaves, and where to
    worst        the worst record of each kind, within the limits
    worst_records, worst_ticks   these records and ticks      dense_cluster   what they meet

Whole days of a simulated cluster, in one process:

    closed_loop  hot minutes and evictions beside other schedulers, records a second

Through a broker, with one worker in a process of its own:

    messages     what producers say: nodes, metrics, pods, requests, usage samples
    wire         records out as fast as they go or at a pace, records in with their time of arrival
    rig          a broker with its topics, the worker, and what they use
    decisions    the check that every request was placed once
    throughput   samples and decisions a second, bytes that they cost in changelogs and journal
    latency      request in to decision out at a given pace
    recovery     a large cluster after kill -9: time to the next decision, and memory

On a cluster, with the processes of `loadstream kubernetes` in between:

    cluster_rig        a real control plane beside the broker, and the duties
    binding            bindings a second, and those of a bare client in turns with it
    pod_latency        pod created to pod bound at a given pace
    played_cluster     an API server and kubelets for sizes that no real one has room for here
    watch_and_collect  listing all pods, measuring all nodes, and the CPU of all processes

What does not measure time:

    size         lines, words, topics, tables, fields, settings and commands, with their limits
    yardstick    digests of decisions: whether they are the same as when these were recorded

    publish      the figures of the documents, from what was measured
    reference    the pages of docs/reference that come from the code      field_tables   their tables of fields

What is computed is checked inside each benchmark against the plain way of computing it, and what
comes through a broker record by record, before a figure is printed. Figures through a broker are
taken on a real Kafka of one broker; names with `.embedded` on the broker inside this process.
Worker, broker and the measuring side share the machine, so `detail` says what CPU time each of them
took. Nothing here fails because a machine is slow.
"""
