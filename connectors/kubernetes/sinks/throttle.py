"""Requests that the API server bears: their number at once follows what it answers.

    answered soon       ──▶ one more at once, for each round of answers
    answered slowly     ──▶ a tenth less
    refused, or lost    ──▶ half; after a `Retry-After` nothing is sent until then

`AdaptiveLimit` is the arithmetic, a function of times and answers; `Throttle` holds requests back
by it, first come, first served. A refusal by a disruption budget has status 429, too, and says
nothing about the server: see `connectors.kubernetes.sinks.answers`.
"""

import asyncio
import time
from collections import deque
from typing import Any

from connectors.kubernetes.api.errors import ApiUnreachable
from connectors.kubernetes.api.server import ApiServer, Response
from connectors.kubernetes.sinks.answers import RETRY_AFTER_MAX_S, overloaded

#: Fewest at once: with less, one request that hangs would hold up everything.
FLOOR = 2
#: Most at once: an API server on two cores is full with them, and larger ones share their seats
#: among clients (priority and fairness).
CEILING = 64
#: At once at the beginning: three quarters of what 64 reach, measured on two cores.
START = 16
#: An answer that takes longer, in seconds, is slow: Kubernetes' own objective for the 99th
#: percentile of calls that change one object.
SLOW_S = 1.0
#: What is left of the limit after a slow answer, and after a refusal.
SLOWER, HALVED = 0.9, 0.5


class AdaptiveLimit:
    """How many requests may be under way at once: additive increase, multiplicative decrease."""

    def __init__(self, floor: int = FLOOR, ceiling: int = CEILING, start: int = START) -> None:
        self.at_once = float(start)
        """The limit; its whole part counts."""
        self.resume_at_s = 0.0
        """Nothing may be sent before."""
        self._floor, self._ceiling = floor, ceiling
        self._decreased_at_s = float("-inf")

    def answered(self, sent_at_s: float, now_s: float, under_way: int) -> None:
        """A request that was sent then was answered now, with this number under way."""
        if now_s - sent_at_s > SLOW_S:
            self._decrease(sent_at_s, now_s, SLOWER)
        elif under_way >= int(self.at_once):  # a limit that is not reached says nothing
            self.at_once = min(self._ceiling, self.at_once + 1 / self.at_once)

    def refused(self, sent_at_s: float, now_s: float, retry_after_s: float | None) -> None:
        """A request that was sent then was refused now, or has got no answer."""
        self._decrease(sent_at_s, now_s, HALVED)
        if retry_after_s is not None:
            until_s = now_s + min(retry_after_s, RETRY_AFTER_MAX_S)
            self.resume_at_s = max(self.resume_at_s, until_s)

    def _decrease(self, sent_at_s: float, now_s: float, factor: float) -> None:
        """Once for all requests that were under way together."""
        if sent_at_s >= self._decreased_at_s:
            self.at_once = max(self._floor, self.at_once * factor)
            self._decreased_at_s = now_s


class Throttle:
    """An API server that is asked no more at once than it bears."""

    def __init__(self, server: ApiServer, limit: AdaptiveLimit | None = None) -> None:
        self.limit = limit or AdaptiveLimit()
        self.refusals = 0
        """Requests that the server refused for its load, or did not answer."""
        self.under_way = 0
        self._server = server
        self._queue: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Requests that are held back."""
        return len(self._queue)

    async def send(self, method: str, path: str, **more: Any) -> Response:
        """As `ApiServer.send`, when its turn has come."""
        await self._turn()
        sent_at_s = time.monotonic()
        try:
            response = await self._server.send(method, path, **more)
        except ApiUnreachable:
            self._refused(sent_at_s, None)
            raise
        else:
            if overloaded(response):
                self._refused(sent_at_s, response.error().retry_after_s)
            else:
                self.limit.answered(sent_at_s, time.monotonic(), self.under_way)
            return response
        finally:
            self.under_way -= 1
            self._let_go()

    def _refused(self, sent_at_s: float, retry_after_s: float | None) -> None:
        self.refusals += 1
        self.limit.refused(sent_at_s, time.monotonic(), retry_after_s)

    async def _turn(self) -> None:
        if not self._queue and self._open():
            self.under_way += 1
            return
        ticket = asyncio.get_running_loop().create_future()
        self._queue.append(ticket)
        self._let_go()
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():  # its turn had come
                self.under_way -= 1
                self._let_go()
            raise

    def _open(self) -> bool:
        return self.under_way < int(self.limit.at_once) and time.monotonic() >= (
            self.limit.resume_at_s
        )

    def _let_go(self) -> None:
        """Send what may be sent, and look again when the server's pause is over."""
        while self._queue and self._open():
            ticket = self._queue.popleft()
            if not ticket.done():
                self.under_way += 1
                ticket.set_result(None)
        pause_s = self.limit.resume_at_s - time.monotonic()
        if self._queue and pause_s > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._again)

    def _again(self) -> None:
        self._timer = None
        self._let_go()
