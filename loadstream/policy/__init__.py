"""The command group `policy`.

commands  `policy check`, `apply`, `history`
draft     `policy init`
imports   `policy import`
records   policy records, written and waited for
"""
