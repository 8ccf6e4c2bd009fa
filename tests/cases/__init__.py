"""`python -m tests.cases`: situations from the field, each with its input and the right outcome.

case           one situation: number, input, right outcome, and how it is run
cluster        a cluster on both stages, described by shares of nodes of ten cores
measurements   metrics that lie or are missing
sources        what usage sources make of the answers that they get
placement      what pods count for, where they go, in which order they wait
rebalancing    who is hot, which pod leaves, where it goes
evictions      what protects a pod, and what an eviction answers
policies       policy files and imported configurations
explanations   what people read
outside        situations that are not run here, with the reason
load           all of them
"""
