"""The command group `migration`.

commands  `migration list`, `start`, `pause`, `resume`, `abort`
requests  writes a request and follows its answers, also for `node drain` and `undrain`
"""
