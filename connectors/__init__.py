"""How records get in and out: brokers, producers, queries.

Lines look only at the lines below them:

    kubernetes                                   a real cluster behind the same ports
    agent                                        measures its own node
    queries                                      answers for people, read from topics
    policies                                     the policies of a cluster
    brokers                                      brokers to run: embedded, real
    kafka                                        Kafka itself: one reader, one producer, topics
    process                                      what every process needs: logs, metrics, settings
    units                                        amounts and times as text
"""
