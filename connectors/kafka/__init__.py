"""Kafka itself: brokers to run, topics to make and check, records to put in and to look at.

embedded, server ──▶ a broker          client ──▶ a connection, or a clear reason why there is none
topics ──▶ what must exist             records ──▶ key, partition and time of a message
produce ──▶ JSON lines into a topic    tail, wording ──▶ records as readable lines
"""
