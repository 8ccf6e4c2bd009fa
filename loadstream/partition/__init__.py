"""The command group `partition`.

commands  the command `reset`
reset     deletes the state of a partition in both stages
"""
