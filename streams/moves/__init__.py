"""What is remembered of moves: where pods must not return, which owners loop, what fits nowhere.

memory     all of it for one cluster
history    recent moves per owner, and owners that are frozen
loops      whether moves end where they began
cooldown   nodes that moves left, until they have cooled
unmovable  pods that no target could take
effects    whether evictions helped, and pools that are held back
followed   evictions whose effect is watched, with their indexes
left_alone what a node would use without the pods that have left it or come
verdicts   the verdict on an eviction, and what it means for its pool
deadlines  when to look again, and waits that double
owner      whose pod a pod is
"""
