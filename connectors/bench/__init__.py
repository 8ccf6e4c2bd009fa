"""Benchmarks through a broker: `python -m connectors.bench [NAME]` prints one JSON object a figure.

    figures      what a figure is
    messages     what producers say: nodes, metrics, pods, requests, usage samples
    wire         records out as fast as they go or at a pace, records in with their time of arrival
    rig          a broker with its topics, one worker in a process of its own, and what they use
    throughput   samples and decisions a second, bytes that they cost in changelogs and journal
    latency      request in to decision out at a given pace
    recovery     a large cluster after kill -9: time to the next decision, and memory

Every figure is taken on a real Kafka of one broker; names with `.embedded` on the broker inside this
process. Worker, broker and the measuring side share the machine, so `detail` says what CPU time each of
them took beside the wall clock's figure. What was measured is checked, record by record, before a figure
is printed; a wrong or missing answer stops the run.
"""
