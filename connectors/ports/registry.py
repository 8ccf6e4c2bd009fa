"""Finds what implements the ports: every module of the packages named here is looked through.

So a new usage source, state watch or sink is one module and nothing else.
"""

import inspect
import pkgutil
from importlib import import_module
from typing import Any

from connectors.ports.sink import Sink
from connectors.ports.state_watch import StateWatch
from connectors.ports.usage_source import UsageSource

#: Packages that hold implementations.
PACKAGES = (
    "connectors.simulated",
    "connectors.node_agent",
    "connectors.kubernetes.sinks",
    "connectors.kubernetes.watch",
    "connectors.kubernetes.sources",
)


def usage_sources() -> dict[str, type[UsageSource]]:
    """What measures nodes, by name; raises ValueError."""
    return _implementations(UsageSource)


def state_watches() -> dict[str, type[StateWatch]]:
    """What watches clusters, by name; raises ValueError."""
    return _implementations(StateWatch)


def sinks() -> dict[str, type[Sink]]:
    """What carries out commands, by name; raises ValueError."""
    return _implementations(Sink)


def _implementations(port: type[Any]) -> dict[str, type[Any]]:
    """The classes that implement a port, by name in ascending order.

    Two of one name, or one without a name, are an error that says which modules they are in.
    """
    found: dict[str, type[Any]] = {}
    for package in PACKAGES:
        for module in pkgutil.iter_modules(import_module(package).__path__):
            content = import_module(f"{package}.{module.name}")
            for _, each in inspect.getmembers(content, inspect.isclass):
                own = each.__module__ == content.__name__
                if not own or not issubclass(each, port) or inspect.isabstract(each):
                    continue
                name = getattr(each, "name", "")
                if not name or name in found:
                    other = f"; {found[name].__module__} has it, too" if name else ""
                    raise ValueError(
                        f"{each.__module__}.{each.__name__}: found name {name!r}{other}; "
                        f"expected one that no other {port.__name__} has"
                    )
                found[name] = each
    return dict(sorted(found.items()))
