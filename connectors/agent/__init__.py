"""`loadstream agent`: measures the node that it runs on from the kernel's files, and needs nothing
else.

    /proc/stat, meminfo, pressure ─▶ cpu, memory, pressure ─┐
    pods' cgroups, v1 or v2 ───────▶ hierarchies, pods ─────┼─▶ source ─▶ delivery ─▶ node-usage
    /var/log/pods ─────────────────▶ names ─────────────────┘

    files         small files of the kernel, and which of them could not be read
    cpu           counters of CPU time, and the rate between two of them
    memory        what is used, without page cache, with the hot part of it, and with all of it
    pressure      pressure stall information
    hierarchies   where cgroups are mounted: v2, v1, or both
    pods          the cgroups of pods, of both cgroup drivers
    names         namespace and name of a pod by its uid
    source        one sample of the node and its pods
    delivery      samples to the broker; measuring never waits for it
    telemetry     what the agent counts of itself

What cannot be read is left out of a sample and counted; a zero would be believed. No API server is
asked, and nothing is written on the node. Only `delivery` speaks to Kafka.
"""
