"""`policy init`: a first policy for a cluster, based on its own history.

reading   the history of a cluster
advice    the values of the policy, each with its reason
document  the policy as YAML, with the reasons as comments
"""
