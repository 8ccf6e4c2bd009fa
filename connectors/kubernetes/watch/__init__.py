"""Watch the nodes, pods and workloads of a cluster, and the pods that need a node.

    state_watch       all collections together, as a state watch
    kinds             all collections, and the records of their objects
    reporter          reports differences from what was reported before, as validated messages
    objects           one record per object
    pod_reporter      records and scheduling requests of pods
    pods              converts pods, with requirements that loadstream does not support
    containers        the resources of containers
    volumes           volumes and claims, on which records of pods depend
    conversions       converts nodes, namespaces, priority classes, budgets and selectors
    workloads         converts workloads
    metadata          names, labels, relevant annotations, times

The modules from `pods` on are pure: JSON of an object in, plain values of a record out.
"""
