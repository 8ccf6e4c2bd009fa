"""What measures the nodes of a real cluster, and the collector that runs several of these at once.

    collector ─▶ a source: kubelet, metrics_api, prometheus, koordinator
        │
        └─▶ precedence ─▶ (topic, message)

    collector         runs sources, each at its own interval  precedence       who speaks for a node
    base              what every source has                   settings         the file that lists them
    known             all sources by name
    directory         nodes, addresses, uids of pods          health           what a source meets
    clock_skew        whose time a measurement carries        http             one GET, and its failures

    kubelet           kubelets themselves, in two ways        metrics_api      metrics.k8s.io
    prometheus        PromQL
    promql_presets    queries of node_exporter and cAdvisor            series  what queries answer
    koordinator       NodeMetric objects                      node_metric      an object as a message
    collect_policy    how often koordlet reports

A new source is one module here, with a class that extends `KubernetesSource`, an entry in `known`,
and one test module.
Nothing here speaks to Kafka.
"""
