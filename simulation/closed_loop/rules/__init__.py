"""Placement rules of other schedulers, as functions of a plain view of the nodes.

A rule chooses a node for one pod. A rule has no state and only knows what schedulers of real clusters know.
Among equal nodes a rule draws one at random, as kube-scheduler does.

    view                           the input of rules, nodes with room, the best node
    least_allocated                kube-scheduler's LeastAllocated and BalancedAllocation, on requests
    target_load_packing            Trimaran's TargetLoadPacking
    load_variation_risk_balancing  Trimaran's LoadVariationRiskBalancing
    random_choice                  any node with room
"""
