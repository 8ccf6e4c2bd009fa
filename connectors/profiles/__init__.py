"""`loadstream profile`: what pods of a cluster, or of one owner in it, are expected to use.

commands  the command
reading   the rows of a cluster, from the changelogs of its tables
report    the answer: sentences, and one JSON object
"""
