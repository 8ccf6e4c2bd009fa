"""`loadstream agent`: measures its node from the kernel's files.

    /proc/stat, meminfo ──────▶ cpu, memory ───────┐
    pods' cgroups, v1 or v2 ──▶ hierarchies, pods ─┼─▶ source ─▶ delivery ─▶ node-usage
    /var/log/pods ────────────▶ pods ──────────────┘

    files         reads small files and counts failures
    cpu           CPU time, and the rate between two readings
    memory        memory in use, with and without page cache
    hierarchies   finds mounted cgroup hierarchies: v2, v1, or both
    pods          finds the cgroups of pods, and their names by uid
    source        builds a sample of the node and its pods
    delivery      sends samples to the broker from a separate thread
    telemetry     metrics of the agent itself

Values that cannot be read are left out of a sample and counted as failures; they are not reported as
zero. The agent does not use the API server and writes nothing on the node. Only `delivery` uses Kafka.
"""
