"""What is remembered of moves: where pods must not return, and which owners loop.

memory     all of it for one cluster
history    recent moves per owner, and owners that are frozen
loops      whether moves end where they began
cooldown   nodes that moves left, until they have cooled
followed   evictions that are followed, and their outcomes
deadlines  when to look again, and waits that double
"""
