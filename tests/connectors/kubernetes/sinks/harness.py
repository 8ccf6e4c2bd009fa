"""How writes in the background are waited for."""

import asyncio

from connectors.kubernetes.sinks.background import Background


async def written(*backgrounds: Background) -> None:
    """Nothing waits to be written any more, and nothing is under way."""
    while any(background._waiting or background._workers for background in backgrounds):
        await asyncio.sleep(0.001)
