"""A real Kubernetes cluster behind the ports: what there is, what it uses, what is done to it.

api/              one API server, asked in raw JSON: access, requests, errors, lists and watches
watch/            what there is, and what wants a node
sinks/            binding, evicting, explaining; Events; Koordinator's PodMigrationJobs
control_plane/    a control plane to run on this machine, for tests and the demo
sources/          what measures nodes: kubelets, the metrics API, Prometheus, Koordinator

`rights.yaml` has the role of each duty.
"""
