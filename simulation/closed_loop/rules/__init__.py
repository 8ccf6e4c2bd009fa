"""Placement rules of other schedulers, as functions of a plain view of the nodes.

Each rule chooses a node for one pod. It knows as much as in a real cluster, and keeps no state. Among
equal nodes it draws one, as kube-scheduler does: the same generator gives the same choices.

    view                           the nodes as a rule sees them, nodes with room, the best node
    least_allocated                kube-scheduler's LeastAllocated and BalancedAllocation, on requests
    target_load_packing            Trimaran's TargetLoadPacking
    load_variation_risk_balancing  Trimaran's LoadVariationRiskBalancing
    random_choice                  any node with room
"""
