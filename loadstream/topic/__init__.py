"""The command group `topic`.

commands          `topic create`, `check`, `list`, `produce`
tail              `topic tail`
consumer_reading  a record checked as its consumer would check it
"""
