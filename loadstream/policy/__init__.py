"""The command group `policy`.

commands  `policy check`, `apply`
versions  `policy show`, `history`, `diff`, `rollback`
draft     `policy init`
imports   `policy import`
records   policy records, written and waited for
"""
