"""What every process needs; knows nothing of Kafka and Kubernetes.

logs              one log set-up: JSON or text, without secrets
metrics_endpoint  `/metrics` and health of a process on one port
settings          settings from environment variables
signals           how a process ends when it is asked to
event_loop        runs asynchronous work in uvloop
child_process     servers that we run as child processes; files that are made once
local_ports       addresses and free ports of this machine
terminal          printable output of commands
wall_clock        the time
"""
