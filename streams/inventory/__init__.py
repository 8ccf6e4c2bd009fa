"""What there is in a cluster: nodes and pods, their load and what it means under a policy.

In come node states, pod lifecycles and node metrics; placement and rebalancing read. What changed
is noted once, for arrays over nodes and for table rows. Pure: the time is that of the last tick.

    inventory       nodes and pods of one cluster, and what changed of them
    pod_change      a pod before and after a record, worked out before anything takes it in
    pod_events      takes a pod's lifecycle record in: room is taken, moved or given back
    full_lists      full lists of nodes and pods: what a list lacks is gone
    freshness       which nodes have a fresh metric with the statistics that they are judged by
    record_numbers  numbers of applied records, places of the pods that they take in
    context         under which policy and at what time a cluster decides, and whether at all
    node            one node: what Kubernetes says of it, and what is held there
    node_index      places of nodes in arrays, and what about them has changed
    change          what about a node has changed
    cause           the record that led to a decision
    arrays          types of arrays over nodes, pods and resources
    assigned        a pod as a node counts it
    load            what a node uses, and is expected to use
    pod_sums        the pods that a node counts, and what they add to its usage
    metric          a node metric as vectors over the policy's resources
    estimate        what a pod is expected to use before it has been measured
    estimate_annotations  how pods change their own
    need            what a pod says that it needs, by its class
    demand          what a pod asks of a node
    kind            kinds of pods: pods that every filter and score takes for the same
    limits          what one pod may ask for
    priority        Koordinator's classes of pods
    owners          which pods belong to one controller
    moments         mean and variance of usage, where a plugin asks: nodes and fleet
    node_lives      what the pods of one node used over their lives, and lately
    recent          what was used lately, as far as it was seen to last
    node_moments    mean and variance of what one node is going to use
    usage_shares    what one pod adds to the sums that these are worked out from
    metric_lives    what a node's metric says of lives, and of what belongs to no pod
    life            what one pod used over its life
    fleet_in_force  what all nodes of a cluster go by
    fleet_usage     what pods use of their requests: expected of those that are not measured
    profile         what a node's state means under one policy
    thresholds      usage thresholds of a node: the policy's, or the node's annotation
    usage_history   thresholds that follow the time of the week or the recent past
    go_json         JSON as Go decodes it into typed values
    rounding        Go's arithmetic, where it decides
"""
