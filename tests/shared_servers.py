"""Stops shared servers as soon as no later test of the process needs them.

A session fixture ends with the run, and so would its server, which takes memory and CPU time of all
tests after the last test that uses it.

This is a plugin, since pytest calls hooks of session fixtures only in plugins of the root directory, not
in `tests/conftest.py`.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import pytest

#: Fixtures that start a Kafka.
KAFKAS = ("kafka", "secured")
#: Fixtures of servers that are shared by the tests of a process.
SHARED = (*KAFKAS, "control_plane")


class SharedServers:
    """The servers of one process."""

    def __init__(self) -> None:
        self._started: dict[str, tuple[pytest.FixtureDef[Any], pytest.FixtureRequest]] = {}
        self._items: list[pytest.Item] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Read the order of tests."""
        self._items = session.items

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[Any]:
        """Record which servers run."""
        if fixturedef.argname in SHARED:
            self._started[fixturedef.argname] = (fixturedef, request)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Stop the servers that no later test needs.

        If a test needs one nevertheless, pytest starts it again.
        """
        yield
        for name in list(self._started):
            if nextitem is None or self._places[nextitem.nodeid] > self._last_uses[name]:
                fixture, request = self._started.pop(name)
                fixture.finish(request)  # type: ignore[arg-type]  # of the kind that it was made for

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """Return the position of each test id in the order of its process."""
        return {item.nodeid: number for number, item in enumerate(self._items)}

    @cached_property
    def _last_uses(self) -> Mapping[str, int]:
        """Return by server the position of the last test that uses it, or -1."""
        used = dict.fromkeys(SHARED, -1)
        for number, item in enumerate(self._items):
            for name in SHARED:
                # `broker` requests it only when it runs.
                if name in getattr(item, "fixturenames", ()) or (
                    name == "kafka" and item.get_closest_marker("kafka")
                ):
                    used[name] = number
        return used
