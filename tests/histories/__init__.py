"""Random histories: a simulated cluster, both stages, and everything around them that can fail.

What happens:
    history              a history is a list of events, drawn from a seed
    valid_events         events of a real cluster and its users
    hostile_events       values at limits, broken records, records that are not true
    policies             random policies

Where it happens:
    world                one cluster: nodes, owners, pods, usage
    log                  an in-memory Kafka
    outside              watch, agents, binder and evictor, and their faults
    workers              both stages with journal and rows; they stop and restart

What must hold:
    references           stages that never stop, and the replay of the journal
    stage_invariants     of each record and its outputs, and of the state after each event
    decision_invariants  of each decision and command, by the model
    model                what is known from inputs and outputs alone
    failure              an invariant that does not hold

How it runs:
    run                  applies the events of a history and checks the invariants
    __main__             the command behind `make fuzz`; finds a shorter history that fails in the same way
"""
