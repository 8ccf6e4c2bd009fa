"""Which plugins a pasted configuration enables, by upstream's rules of merging.

    plugins:
      score:      {enabled: [{name: LoadAwareScheduling, weight: 5}], disabled: [{name: "*"}]}
      multiPoint: {enabled: [...]}

What an extension point names wins over multiPoint, and that over the default plugins; enabled wins
over disabled in one place. The order is the scheduler's: first what is named again although
multiPoint or upstream's defaults have it, then the rest of these, then what only the extension
point names.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from schemas.policy.errors import Path

#: Plugins of ours that upstream does not enable by itself.
_NOT_UPSTREAMS_DEFAULT = ("LoadAwareScheduling", "NodeResourceLimitsAware", "OverutilizationRisk")


@dataclass(frozen=True, slots=True)
class Reference:
    """A plugin named in a list, and where."""

    name: str
    path: Path
    weight: Any = None


def references(plugins: dict[str, Any], point: str, listing: str, at: Path) -> list[Reference]:
    """The entries of `plugins.<point>.<listing>`; what has no name was reported by the shape's
    check."""
    held = plugins.get(point)
    entries = held.get(listing) if isinstance(held, dict) else None
    found = []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        path = (*at, point, listing, index)
        if isinstance(entry, str):
            found.append(Reference(entry, path))
        elif isinstance(entry, dict) and isinstance(entry.get("name"), str):
            found.append(Reference(entry["name"], path, entry.get("weight")))
    return found


def merged(
    plugins: dict[str, Any], point: str, at: Path, defaults: tuple[str, ...], known: tuple[str, ...]
) -> list[Reference]:
    """The plugins that run at an extension point, of those that are known, in their order."""
    enabled: dict[str, Reference] = {}
    disabled: set[str] = set()
    everywhere: list[str] = []
    for source in (point, "multiPoint"):
        for entry in references(plugins, source, "enabled", at):
            if entry.name in known and entry.name not in disabled:
                enabled.setdefault(entry.name, entry)
                everywhere += [entry.name] if source == "multiPoint" else []
        disabled |= {entry.name for entry in references(plugins, source, "disabled", at)}
        if "*" in disabled:
            disabled |= set(known)
    own = [entry.name for entry in references(plugins, point, "enabled", at)]
    common = [*(n for n in defaults if n not in disabled or n in enabled), *everywhere]
    upstreams = {*everywhere, *(n for n in defaults if n not in _NOT_UPSTREAMS_DEFAULT)}
    order = [
        *(name for name in own if name in upstreams),
        *(name for name in common if name not in own),
        *own,
    ]
    names = [name for name in dict.fromkeys(order) if name in known]
    return [enabled.get(name, Reference(name, at)) for name in names]


def unknown(plugins: dict[str, Any], at: Path, ours: frozenset[str]) -> Iterator[Reference]:
    """Enabled plugins, at any extension point, that are none of ours."""
    for point in plugins:
        for entry in references(plugins, point, "enabled", at):
            if entry.name not in ours:
                yield entry
