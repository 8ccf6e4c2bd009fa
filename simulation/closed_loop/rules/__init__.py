"""Placement rules of other schedulers, as functions of a plain view of the nodes.

Each rule chooses a node for one pod from what the rule would know in a real cluster, and keeps no state.
Among equal nodes one is drawn, as in kube-scheduler: the same generator gives the same choices.

    view                           the nodes as a rule sees them, nodes with room, the best node
    least_allocated                kube-scheduler's LeastAllocated and BalancedAllocation, on requests
    target_load_packing            Trimaran's TargetLoadPacking
    load_variation_risk_balancing  Trimaran's LoadVariationRiskBalancing
    random_choice                  any node with room
"""
