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
    metrics_endpoint                             `/metrics` and `/healthz` of processes
    terminal  units                              what commands print
    child_process  guard  local_ports  startable  made_once
                                                 servers that we run ourselves
    event_loop  process_log                      loop and logs of processes without Faust
    known_plugins  wall_clock                    plugins of policies, the time
"""
