"""How records get in and out: brokers, producers, queries, simulated clusters.

Lines look only at the lines below them:

    demo                                         the whole system on one machine
    closed_loop                                  whole days decided by several policies and rules
    simulated                                    a simulated cluster behind the ports of a real one
    kubernetes                                   a real cluster behind the same ports
    node_agent                                   measures its own node
    whynot  policy  queries                      answers from topics, policies
    brokers                                      brokers to run: embedded, real
    kafka                                        Kafka itself: one reader, one sender, topics
    process                                      what every process needs: logs, metrics, settings
    units  known_plugins                         amounts and times as text, plugins of policies
"""
