"""Stops servers that tests share as soon as no test of their process needs them any more.

A fixture of a whole run ends with the run, and with it the server that it started: that would take
memory and time of all the tests after the last one that asks it anything.

This is a plugin and not a part of `conftest.py`: pytest asks only what belongs to the root directory
about fixtures of a whole run, which `tests/conftest.py` does not.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import pytest

#: Fixtures that start a Kafka.
KAFKAS = ("kafka", "secured")
#: Fixtures of servers that the tests of a process share.
SHARED = (*KAFKAS, "control_plane")


class SharedServers:
    """The servers of one process, once its tests are known and in order."""

    def __init__(self) -> None:
        """None runs."""
        self._started: dict[str, tuple[pytest.FixtureDef[Any], pytest.FixtureRequest]] = {}
        self._items: list[pytest.Item] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """From now on the order of tests is known."""
        self._items = session.items

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[Any]:
        """Keep in mind which of them run."""
        if fixturedef.argname in SHARED:
            self._started[fixturedef.argname] = (fixturedef, request)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Stop those that no test needs any more.

        Should a test need one after all, pytest starts it anew.
        """
        yield
        for name in list(self._started):
            if nextitem is None or self._places[nextitem.nodeid] > self._last_uses[name]:
                fixture, request = self._started.pop(name)
                fixture.finish(request)  # type: ignore[arg-type]  # of the kind that it was made for

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """Ids of tests to their places in the order in which each process takes its own."""
        return {item.nodeid: number for number, item in enumerate(self._items)}

    @cached_property
    def _last_uses(self) -> Mapping[str, int]:
        """Names of servers to the place of the last test that uses one; -1: none does."""
        used = dict.fromkeys(SHARED, -1)
        for number, item in enumerate(self._items):
            for name in SHARED:
                # `broker` asks for it only when it runs.
                if name in getattr(item, "fixturenames", ()) or (
                    name == "kafka" and item.get_closest_marker("kafka")
                ):
                    used[name] = number
        return used
