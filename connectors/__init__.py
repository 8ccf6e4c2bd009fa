"""How records get in and out: brokers, producers, queries.

Lines look only at the lines below them:

    kubernetes                                   a real cluster behind the same ports
    node_agent                                   measures its own node
    whynot  policy  queries                      answers from topics, policies
    brokers                                      brokers to run: embedded, real
    kafka                                        Kafka itself: one reader, one sender, topics
    process                                      what every process needs: logs, metrics, settings
    units                                        amounts and times as text
"""
