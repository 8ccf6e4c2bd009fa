"""The command group `topic`.

commands          `topic create`, `check`, `list`, `produce`
tail              `topic tail`
consumer_reading  checks a record as its consumer does
"""
