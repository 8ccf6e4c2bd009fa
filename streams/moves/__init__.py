"""What is remembered of moves: where pods must not return, which owners loop, what fits nowhere.

memory     all of it for one cluster
history    recent moves per owner, and owners that are frozen
loops      whether moves end where they began
cooldown   nodes that moves left, until they have cooled
unmovable  pods that no target could take
followed   evictions that are followed, and their outcomes
deadlines  when to look again, and waits that double
owner      whose pod a pod is
"""
