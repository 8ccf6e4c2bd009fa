"""The command group `policy`.

commands  `policy check`, `apply`
versions  `policy show`, `history`, `diff`, `rollback`
imports   `policy import`
records   policy records, written and waited for
"""
