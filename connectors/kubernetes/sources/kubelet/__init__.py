"""Usage from kubelets.

resource   samples from `/metrics/resource`
requests   requests to kubelets, and their settings
scraper    polls many nodes, evenly spread over the interval
counters   parses the answer, and computes rates from counters
"""
