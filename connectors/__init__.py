"""Connections to Kafka and Kubernetes, and answers that commands read from topics.

A package imports only packages on the lines below its own:

    kubernetes                                   a real cluster: watch, usage, bindings and evictions
    agent                                        measures its own node
    queries                                      answers for people, read from topics
    policies                                     the policies of a cluster
    ports                                        the base class of sinks, and the rules for every command
    brokers                                      brokers to run: embedded, real
    kafka                                        Kafka itself: one reader, one producer, topics
    process                                      what every process needs: logs, metrics, settings
    units                                        amounts and times as text
"""
