"""The command group `migration`.

commands  `migration list`, `start`, `pause`, `resume`, `abort`
requests  one request, written and followed; `node drain` and `undrain` write such requests too
"""
