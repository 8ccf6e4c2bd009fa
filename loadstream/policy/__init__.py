"""The command group `policy`.

commands  `policy check`, `apply`
versions  `policy show`, `history`, `diff`, `rollback`
imports   `policy import`
records   writes policy records and waits until they are applied
"""
