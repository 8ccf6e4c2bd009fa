"""A round as Koordinator makes it, to the byte (`compat: koordinator`).

rules       the round over all pools
rounds      one pool's part of it: nodes classed and marked
evictions   which pods leave its hot nodes
pool_usage  what its nodes use as pods leave, against their limits
standing    what all pools have in common
pools       pools, with the thresholds that upstream fills in
fit         nodeFit as upstream tests it
detectors   upstream's count of abnormal rounds
"""
