"""Rows of the tables.

tables         all tables: kinds of rows and their keys
rows           rows of the cluster stage
percentiles    rows of table `node_percentiles`
usage_statistics  rows of usage over lifetimes of pods, and of a whole cluster
"""
