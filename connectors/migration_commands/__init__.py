"""Moving pods by hand.

commands  `migrate`, `drain`, `undrain`, `migration pause`, `resume`, `abort`, `migrations`
requests  one request written, and its answers followed
answers   which records answer a request, and how it ended
states    the newest state of a cluster's migrations and drains
pods      which pod a name means
"""
