"""Imports all modules, which register their situations."""

from importlib import import_module

from tests.cases.case import CASES
from tests.cases.outside import NOT_RUN

__all__ = ["CASES", "NOT_RUN"]

for _module in (
    *("measurements", "sources", "placement", "rebalancing", "evictions"),
    *("policies", "explanations"),
):
    import_module(f"tests.cases.{_module}")
