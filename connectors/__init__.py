"""How records get in and out: brokers, producers, commands, simulated clusters.

Lines look only at the lines below them:

    cli                                          `loadstream`: all groups of commands together
    demo                                         `loadstream demo`: the whole system on one machine
    closed_loop                                  whole days decided by several policies and rules
    simulated                                    a simulated cluster behind the ports of a real one
    kubernetes                                   a real cluster behind the same ports
    node_agent                                   `loadstream agent`: measures its own node
    policy  migration_commands  whynot           commands around policies, migrations and questions
    brokers                                      brokers to run: embedded, real
    kafka                                        Kafka itself: one reader, one sender, topics, commands
    schema_commands                              `loadstream schemas`
    metrics_endpoint                             `/metrics` and `/healthz` of processes
    arguments  terminal  units                   what commands read and print
    child_process  guard  local_ports  startable  made_once
                                                 servers that we run ourselves
    event_loop  process_log                      loop and logs of processes without Faust
    known_plugins  wall_clock                    plugins of policies, the time
"""
