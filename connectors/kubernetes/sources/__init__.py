"""Usage sources of a real cluster, and the collector that runs them.

    collector ─▶ sources: kubelet, metrics_api, prometheus, koordinator
        │
        └─▶ precedence ─▶ (topic, message)

    collector            runs sources, each at its own interval
    precedence           chooses the source that reports a node
    base                 base class of sources
    settings             the file that lists the sources
    registry             all sources by name
    directory            nodes, their addresses, and uids of pods
    health               failures and notes of a source
    http                 one HTTP request, its failures, and the time of its figures if clocks differ
    kubelet              polls kubelets
    metrics_api          metrics.k8s.io
    prometheus           Prometheus servers; promql: queries of exporters, and their answers
    koordinator          NodeMetric objects

A new source is a module with a subclass of `KubernetesSource`, an entry in `registry`, and a test
module. Nothing here uses Kafka.
"""
