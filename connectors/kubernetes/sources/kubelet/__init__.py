"""Usage from the kubelets themselves.

source      what both kinds of sources have in common
resource    kubelets' /metrics/resource
summary     kubelets' /stats/summary
scraper     many nodes, evenly spread over the interval
exposition  bytes of the Prometheus text format to figures
rates       counters to rates
"""
