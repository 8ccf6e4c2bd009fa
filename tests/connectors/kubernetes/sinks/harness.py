"""Waits for background writes."""

import asyncio

from connectors.kubernetes.sinks.background import Background


async def written(*backgrounds: Background) -> None:
    """Wait until no write waits or runs."""
    while any(background._waiting or background._workers for background in backgrounds):
        await asyncio.sleep(0.001)
