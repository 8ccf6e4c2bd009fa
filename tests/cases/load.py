"""All situations, in the order of their modules."""

from tests.cases import evictions, measurements, placement, policies, rebalancing
from tests.cases.case import CASES
from tests.cases.outside import NOT_RUN

__all__ = ["CASES", "NOT_RUN", "evictions", "measurements", "placement", "policies", "rebalancing"]
