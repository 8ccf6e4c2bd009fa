"""Earlier moves: nodes to which pods must not return, and owners whose pods move in loops.

memory              the state of one cluster
history             recent moves per owner, loops among them, and owners that are frozen
cooldown            nodes that moves left, until they have cooled
followed_evictions  evictions whose effect is measured
deadlines           deadlines by name, and waiting times that double
"""
