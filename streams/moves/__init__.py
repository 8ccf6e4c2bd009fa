"""Memory of earlier moves: prevents pods from returning to hot nodes and from moving in loops.

memory              the state about moves of one cluster
history             recent moves per owner, loops among them, and owners that are frozen
cooldown            nodes that moves left, until they have cooled
followed_evictions  evictions whose effect is measured
waits               lengths of waits that double
"""
