"""A real Kubernetes cluster behind the ports: what there is, what it uses, what is done to it.

api/    one API server, asked in raw JSON: access, requests, errors, lists and watches
"""
