"""How commands are carried out in a real or simulated cluster. Nothing here uses Kafka.

sink           base class: binds and evicts pods ◀── placement-decisions, eviction-commands
command_rules  rules of every sink: each command once, expiry, dry run, one outcome
"""
