"""What measures the nodes of a real cluster, and the collector that runs several of these at once.

    collector ─▶ a source: kubelet, metrics_api, prometheus, koordinator
        │
        └─▶ precedence ─▶ (topic, message)

    collector         runs sources, each at its own interval
    precedence        which source counts for a node
    base              what every source has
    settings          the file that lists the sources
    registry          all sources by name
    directory         nodes, addresses, uids of pods
    health            failures of a source
    clock_skew        whose clock a measurement carries
    http              one GET request, and its failures
    kubelet           asks kubelets, in two ways
    metrics_api       metrics.k8s.io
    prometheus        PromQL
    promql_presets    queries of node_exporter and cAdvisor
    series            answers of queries
    koordinator       NodeMetric objects
    node_metric       converts an object to a message
    collect_policy    how often koordlet reports

A new source is one module here, with a class that extends `KubernetesSource`, an entry in
`registry`, and one test module.
Nothing here speaks to Kafka.
"""
