"""Usage from kubelets.

source      polls kubelets; base class of both sources
resource    /metrics/resource
summary     /stats/summary
scraper     polls many nodes, evenly spread over the interval
exposition  parses the Prometheus text format
rates       computes rates from counters
"""
