"""A round as Koordinator makes it, to the byte (`compat: koordinator`).

rules      the round over all pools
rounds     one pool's part of it
pools      pools, with the thresholds that upstream fills in
fit        nodeFit as upstream tests it
detectors  upstream's count of abnormal rounds
"""
