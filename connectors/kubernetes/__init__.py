"""A real Kubernetes cluster: its objects, their usage, and commands that are carried out in it.

    duties            the processes between a cluster and Kafka: watch, collect, bind, evict
    watch             what there is, and what wants a node
    sources           what measures nodes: kubelets, the metrics API, Prometheus, Koordinator
    sinks             binding, evicting, explaining; Events; Koordinator's PodMigrationJobs
    api               one API server, asked in raw JSON: access, requests, errors, lists and watches

`rights.yaml` has the role of each duty.
"""
