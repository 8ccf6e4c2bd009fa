"""`python -m tests.cases`: situations from practice, each with its input and right outcome.

case           one situation, and decorators that register situations
cluster        a cluster on both stages, with usage as shares of nodes
measurements   wrong and missing metrics
sources        answers to usage sources
placement      demand of pods, choice of nodes, order of waiting pods
rebalancing    hot nodes, evicted pods, targets
evictions      protections of pods, answers to evictions
policies       policy files and imported configurations
explanations   explanations of hot nodes without evictions
outside        situations that are not run here, with the reason
load           all situations
"""
