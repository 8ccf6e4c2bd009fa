"""What every process needs, apart from Kafka and Kubernetes.

logs              logging as JSON or text, without secrets
metrics_endpoint  `/metrics` and health checks on one port
signals           stops a process at SIGTERM and Ctrl-C
event_loop        runs asynchronous work in uvloop
child_process     runs servers as child processes
local_ports       addresses and free ports of this machine
terminal          printable output of commands
wall_clock        the time
"""
