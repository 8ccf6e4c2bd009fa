"""Whole days of a cluster from a seed, decided by several policies and rules side by side.

    rules      rules of other schedulers, as functions of arrays: what ours are compared with

`policies` holds the policies, as files, that are compared besides.
"""
