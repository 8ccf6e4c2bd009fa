"""Rules of placement that are not ours, to compare with: functions of a plain view of the nodes.

Each chooses a node for one pod from what it would know in a real cluster; nothing is kept from one
choice to the next. Where several nodes are equally good, one is drawn, as kube-scheduler does: the
same generator gives the same choices.

    view                           what a rule knows of the nodes, which have room, the best of them
    least_allocated                kube-scheduler's LeastAllocated and BalancedAllocation, on requests
    target_load_packing            Trimaran's TargetLoadPacking
    load_variation_risk_balancing  Trimaran's LoadVariationRiskBalancing
    greedy_oracle                  knows what pods and nodes will use
    random_choice                  any node that has room
"""
