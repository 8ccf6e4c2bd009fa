"""The command `loadstream`: the only package that joins streams, connectors and simulation.

__main__     starts the command
commands     registers all commands
worker       `worker`: both stages, fed by Kafka
agent        `agent`: measures this node
broker       `broker`: a local broker
simulate     `simulate`: a simulated cluster
demo         `demo`: one simulated day through a real worker, compared with other schedulers
closed_loop  `closed-loop`: policies and schedulers compared over whole days
status       `status`: brokers and clusters on one screen
cluster      `cluster pause`, `resume`, `why-not`
node         `node list`, `drain`, `undrain`
replay       `replay verify`: replays the journal and compares the outputs
schema       `schema export`
doctor/      `doctor`: faults of an installation
kubernetes   `kubernetes watch`, `collect`, `bind`, `evict`, `all`, `demo`
topic/, migration/, policy/, partition/  command groups
cli/         arguments, connections, errors and files of all commands
"""
