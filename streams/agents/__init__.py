"""The two Faust agents: a stage, its topics and tables, and the worker around it.

These are the only modules that know a stage and the worker both.

    aggregate  over `node-usage`
    cluster    over all inputs of the cluster stage, one writer per partition
"""
