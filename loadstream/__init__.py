"""The command `loadstream`: the composition root, the only package that joins streams and connectors.

__main__     starts the command
commands     all command groups and programs together
worker       `worker`: both stages, fed by Kafka
agent        `agent`: usage of this node
broker       `broker`: a local broker
simulate     `simulate`: a simulated cluster
demo         `demo`: one simulated day through a real worker, compared with other schedulers
closed_loop  `closed-loop`: policies and schedulers compared over whole days
cluster      `cluster pause`, `resume`, `why-not`
node         `node drain`, `undrain`
partition    `partition reset`
replay       `replay verify`: the journal decided again and compared
schema       `schema export`
doctor/      `doctor`: what is wrong with an installation
topic/, migration/, policy/, kubernetes/  groups with more than one module
cli/         what all commands are made of
"""
