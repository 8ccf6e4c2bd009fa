"""`status`: what rebalancing does, for people and their tools; no decision is made from it."""

from typing import Annotated

from pydantic import Field

from schemas.migrations import DrainStatus, MigrationStatus
from schemas.moves import MoveOutcome
from schemas.rounds import RebalanceRound

StatusRecord = Annotated[
    RebalanceRound | MigrationStatus | DrainStatus | MoveOutcome, Field(discriminator="kind")
]
