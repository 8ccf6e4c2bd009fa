"""`loadstream demo`: a whole cluster in a minute, through a real worker.

    scenario     which machines, load, pods and policy      session   a run: what is sent and caused
    observed     what the worker reports of the cluster     relief    the same of rebalancing
    grid         usage of nodes over time, in bins          status    where a run stands
    view, reliefview, display, wording   what is shown during the run
    summary, rebalance_summary, saved    the figures of a run
    alternative  the same run under another policy, for comparison
    report, picture                      what is printed and drawn at the end
    runner       broker, worker and clock around a session  worker    the process of the worker
    commands     the command itself

The cluster is the simulated one (`simulation.cluster`); a session drives it and observes it.
"""
