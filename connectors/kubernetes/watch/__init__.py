"""Watch the nodes, pods and workloads of a cluster, and the pods that need a node.

    state_watch       all collections together, as a state watch
    collection        one collection: its list and watch, its reporter, its health
    kinds             all collections, and the records of their objects
    reporter          reports only differences from what was reported before
    objects           one record per object
    pod_reporter      records and scheduling requests of pods
    records           builds and validates messages
    pods              converts pods; containers: their resources; affinity: selectors;
                      requirements: what loadstream does not support
    claims            volumes of the claims that pods use
    conversions       converts nodes, namespaces, priority classes, budgets and volumes
    workloads         converts workloads
    metadata          names, labels, relevant annotations, times

The modules from `pods` on are pure: JSON of an object in, plain values of a record out.
"""
