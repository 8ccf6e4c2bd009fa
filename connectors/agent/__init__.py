"""`loadstream agent`: measures its node from the kernel's files.

    /proc/stat, meminfo ──────▶ measures ─┐
    pods' cgroups, v1 or v2 ──▶ cgroups ──┼─▶ source ─▶ delivery ─▶ node-usage
    /var/log/pods ────────────▶ cgroups ──┘

    files         reads small files and counts failures
    measures      CPU time and its rate, memory in use with and without page cache
    cgroups       finds the cgroup hierarchies, the cgroups of pods, and their names by uid
    source        builds a sample of the node and its pods
    delivery      sends samples to the broker from a separate thread
    telemetry     metrics of the agent itself

A sample omits values that cannot be read, and counts them as failures; it does not report zero. The
agent does not use the API server and writes nothing on the node. Only `delivery` uses Kafka.
"""
