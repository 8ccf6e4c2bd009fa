"""`loadstream cluster why-not`: explains from records why no pod was evicted.

reading   reads the newest records of a cluster
evidence  holds these records
cluster   the answer for a cluster; node: for a node; pod: for a pod
wording   parts of sentences that the answers share
"""
