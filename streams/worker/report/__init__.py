"""Metrics and health of a worker.

metrics   counters and histograms
observer  gauges and lag, updated every few seconds
health    checks whether the worker makes progress, and whether it is ready
"""
