"""Rows of the tables.

tables            all tables: kinds of rows and their keys
rows              rows of the cluster stage
percentiles       rows of table `node_percentiles`
usage_statistics  rows of pod usage over lifetimes, and of a whole cluster
"""
