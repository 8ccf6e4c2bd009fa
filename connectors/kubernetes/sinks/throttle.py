"""Limits concurrent requests to the API server, by its answers.

    fast answer         ──▶ the limit increases by one per round of answers
    slow answer         ──▶ the limit decreases by a tenth
    refused or lost     ──▶ the limit is halved; with `Retry-After`, requests pause

`AdaptiveLimit` computes the limit; `Throttle` delays requests beyond it, first come, first served. A
refusal by a disruption budget also has status 429, but tells nothing about the server's load
(`connectors.kubernetes.sinks.answers`).
"""

import asyncio
import time
from collections import deque
from typing import Any

from connectors.kubernetes.api.errors import ApiUnreachable
from connectors.kubernetes.api.server import ApiServer, Response
from connectors.kubernetes.sinks.answers import RETRY_AFTER_MAX_S, is_overloaded

#: Smallest limit: with 1, a single hanging request would block all others.
FLOOR = 2
#: Largest limit: it saturates an API server on two cores, and larger servers share their seats among clients
#: (priority and fairness).
CEILING = 64
#: First limit: three quarters of the throughput of 64, measured on two cores.
START = 16
#: Slower answers are slow, in seconds: Kubernetes' objective for the 99th percentile of calls that change one
#: object.
SLOW_S = 1.0
#: Factors of the limit after a slow answer, and after a refusal.
SLOWER, HALVED = 0.9, 0.5


class AdaptiveLimit:
    """Limit of concurrent requests: additive increase, multiplicative decrease."""

    def __init__(self, floor: int = FLOOR, ceiling: int = CEILING, start: int = START) -> None:
        self.at_once = float(start)
        """The limit, which is rounded down."""
        self.resume_at_s = 0.0
        """No request is sent before this time."""
        self._floor, self._ceiling = floor, ceiling
        self._decreased_at_s = float("-inf")

    def record_answer(self, sent_at_s: float, now_s: float, under_way: int) -> None:
        """Record an answer, with the number of requests under way."""
        if now_s - sent_at_s > SLOW_S:
            self._decrease(sent_at_s, now_s, SLOWER)
        elif under_way >= int(self.at_once):  # a limit that is not reached is not tested
            self.at_once = min(self._ceiling, self.at_once + 1 / self.at_once)

    def record_refusal(self, sent_at_s: float, now_s: float, retry_after_s: float | None) -> None:
        """Record a refusal, or a lost answer."""
        self._decrease(sent_at_s, now_s, HALVED)
        if retry_after_s is not None:
            until_s = now_s + min(retry_after_s, RETRY_AFTER_MAX_S)
            self.resume_at_s = max(self.resume_at_s, until_s)

    def _decrease(self, sent_at_s: float, now_s: float, factor: float) -> None:
        """Decrease the limit once for all requests that were under way together."""
        if sent_at_s >= self._decreased_at_s:
            self.at_once = max(self._floor, self.at_once * factor)
            self._decreased_at_s = now_s


class Throttle:
    """An API server with limited concurrent requests."""

    def __init__(self, server: ApiServer, limit: AdaptiveLimit | None = None) -> None:
        self.limit = limit or AdaptiveLimit()
        self.refusals = 0
        """Requests that the server refused because of its load, or did not answer."""
        self.under_way = 0
        self._server = server
        self._queue: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def send(self, method: str, path: str, **more: Any) -> Response:
        """Send a request like `ApiServer.send`, once the limit permits it."""
        await self._acquire()
        sent_at_s = time.monotonic()
        try:
            response = await self._server.send(method, path, **more)
        except ApiUnreachable:
            self._refused(sent_at_s, None)
            raise
        else:
            if is_overloaded(response):
                self._refused(sent_at_s, response.error().retry_after_s)
            else:
                self.limit.record_answer(sent_at_s, time.monotonic(), self.under_way)
            return response
        finally:
            self.under_way -= 1
            self._release_waiting()

    def _refused(self, sent_at_s: float, retry_after_s: float | None) -> None:
        self.refusals += 1
        self.limit.record_refusal(sent_at_s, time.monotonic(), retry_after_s)

    async def _acquire(self) -> None:
        if not self._queue and self._has_room():
            self.under_way += 1
            return
        ticket = asyncio.get_running_loop().create_future()
        self._queue.append(ticket)
        self._release_waiting()
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():  # it was released
                self.under_way -= 1
                self._release_waiting()
            raise

    def _has_room(self) -> bool:
        return self.under_way < int(self.limit.at_once) and time.monotonic() >= (
            self.limit.resume_at_s
        )

    def _release_waiting(self) -> None:
        """Release requests within the limit, and set a timer for the end of a pause."""
        while self._queue and self._has_room():
            ticket = self._queue.popleft()
            if not ticket.done():
                self.under_way += 1
                ticket.set_result(None)
        pause_s = self.limit.resume_at_s - time.monotonic()
        if self._queue and pause_s > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._resume)

    def _resume(self) -> None:
        self._timer = None
        self._release_waiting()
