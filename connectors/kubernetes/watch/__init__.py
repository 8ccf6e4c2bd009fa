"""Which nodes, pods and workloads a cluster has, and which pods want a node of us.

    state_watch       all collections together, behind the port of a state watch
    collection        one collection: followed, reported, and how it is doing (`health`)
    kinds             which collections there are, and what their objects become

    reporter          what was reported of a collection, so that only differences are
    objects           one record for each object
    pod_reporter      pods, which are bound, wait or neither; requests
    records           plain values to messages that their readers take

    nodes             a node
    pods              a pod; containers: what it asks for; affinity: which nodes it wants;
                      requirements: what it requires that is not evaluated
    claims            what the volume claims of pods are bound to
    workloads, budgets, namespaces, priority_classes, volumes
                      the other kinds
    metadata          names, labels, annotations that are read, times

Modules of the last group are pure: an object's JSON in, plain values of a record out.
"""
