"""Faults from a seed: the simulated cluster of a closed loop, both stages, and everything that fails.

    trace       what goes wrong and when, drawn from a seed as plain data
    policies    the policies that come and go
    schedule    which faults there are now, each with random numbers of its own
    log         an in-memory Kafka
    observers   the watch and the agents of the nodes, which lose, delay and repeat what they report
    sinks       carry out commands: they fail, lag, forget to report and read again
    workers     both stages with journal, rows and checkpoints; they stop at any point and go on
    watching    what must hold of decisions and commands, by their records alone
    invariants  what must hold after every step, and in the end
    life        one run of a trace
    shrink      a shorter trace that fails in the same way

Steps of ten seconds of the log's time. No fault depends on another one: a trace without some of its
faults is a trace again, which is what makes a failing one short.
"""
