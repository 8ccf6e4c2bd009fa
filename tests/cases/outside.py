"""Situations that are not run here, with the reason."""

NOT_RUN = {
    "2 doctor": "there is no command that proposes another query; values are refused and counted",
    "7 doctor": "the same: `series with 'cpu' on this server` is not looked for",
    "41": "loadstream does not measure pressure: such a node is judged by its usage alone",
    "42": "loadstream sets no taints, so it has none to remove",
    "43": "one kind of statistic holds for all resources of a policy, as in Koordinator's arguments",
    "1 latency": "a record's Kafka timestamp counts in the worker alone: tests/streams/test_worker.py",
    "2 closed loop": "waiting minutes against kube-scheduler are measured by loadstream closed-loop",
    "2 overcommitted by two schedulers": "needs a kubelet that rejects pods: tests marked control_plane",
    "3 drain": "cordoning needs an API server: tests/connectors/kubernetes/sinks",
    "4": "bounds are measured by `make bench` and tests/streams, not by single outcomes",
    "5 policies against a cluster": "what a policy needs of a cluster is read from Kafka: "
    "tests/loadstream/test_policy.py",
    "5 README": "tests/test_readme.py",
}
