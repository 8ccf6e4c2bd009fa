"""The command group `kubernetes`.

duties  one process between a real cluster and Kafka
demo    `kubernetes demo`
"""
