"""A real Kubernetes cluster: reports its objects and their usage, and executes commands.

    duties            the processes between a cluster and Kafka: watch, collect, bind, evict
    watch             reports nodes, pods and workloads, and requests nodes for waiting pods
    sources           measure nodes: kubelets, the metrics API, Prometheus, Koordinator
    sinks             bind, evict, explain; Events; Koordinator's PodMigrationJobs
    api               client of one API server: access, requests, errors, lists and watches

`rights.yaml` has the role of each duty.
"""
