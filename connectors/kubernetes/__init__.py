"""A real Kubernetes cluster behind the ports: what there is, what it uses, what is done to it.

    commands          `loadstream kubernetes ...`; arguments: what several of them take
    demo              `loadstream kubernetes demo`: loadstream on a control plane of this machine
    duties            the processes between a cluster and Kafka: watch, collect, bind, evict
    watch             what there is, and what wants a node
    sources           what measures nodes: kubelets, the metrics API, Prometheus, Koordinator
    sinks             binding, evicting, explaining; Events; Koordinator's PodMigrationJobs
    api               one API server, asked in raw JSON: access, requests, errors, lists and watches
    control_plane     a control plane to run on this machine, for tests and the demo

`rights.yaml` has the role of each duty.
"""
