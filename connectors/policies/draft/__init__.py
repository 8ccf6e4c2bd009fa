"""A first policy for a cluster, from a look at its own history, with the reasons as comments.

    log ─▶ reading ─▶ history ─▶ summary ─▶ advice ─▶ document

    reading   the newest records of a cluster, as a history
    history   what was seen of a cluster, as plain values
    load      what nodes used of a resource: percentiles, spread, hot spells
    summary   everything that values are chosen by
    advice    the values, each with its reason
    document  the policy as YAML

All but reading and the command are functions of what they are given.
"""
