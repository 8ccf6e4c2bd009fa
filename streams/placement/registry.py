"""The registry of filters and scores: a policy enables them by name, orders and weighs them.

Every module of `filters` and `scores` is looked through, so that a new plugin is one module and
nothing else. Which ones are enabled where a policy does not say, and in which order, is the
policy's matter (`schemas.policy.sections.plugins`): what is cheap and refuses most comes first.
"""

import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from types import ModuleType

from schemas.policy import BUILT_IN, KnownPlugins, Policy
from streams.placement import filters, scores
from streams.placement.plugin import Filter, Plugin, Score
from streams.usage.estimate import Estimator


def _classes(package: ModuleType) -> Iterator[type[Plugin]]:
    """The plugins of a package, module by module in the order of names."""
    for module in sorted(each.name for each in pkgutil.iter_modules(package.__path__)):
        content = import_module(f"{package.__name__}.{module}")
        for _, each in sorted(inspect.getmembers(content, inspect.isclass)):
            own = each.__module__ == content.__name__
            if own and issubclass(each, Plugin) and not inspect.isabstract(each):
                yield each


def _order(names: Iterable[str], first: tuple[str, ...]) -> list[str]:
    """Those that are built in, in that order, then the others by name."""
    return [*first, *sorted(set(names) - set(first))]


_FILTERS = {each.name: each for each in _classes(filters) if issubclass(each, Filter)}
_SCORES = {each.name: each for each in _classes(scores) if issubclass(each, Score)}

#: How to make each filter.
FILTERS: dict[str, Callable[[Policy, Estimator], Filter]] = {
    name: _FILTERS[name].build for name in _order(_FILTERS, BUILT_IN.filter)
}
#: How to make each score.
SCORES: dict[str, Callable[[Policy, Estimator], Score]] = {
    name: _SCORES[name].build for name in _order(_SCORES, BUILT_IN.score)
}
#: What a policy may name.
KNOWN = KnownPlugins(tuple(FILTERS), tuple(SCORES), BUILT_IN.balance)


def build_filters(policy: Policy, estimator: Estimator) -> list[Filter]:
    """The filters that a policy enables, in its order."""
    return [FILTERS[item.name](policy, estimator) for item in policy.plugins.filter]


def build_scores(policy: Policy, estimator: Estimator) -> list[tuple[Score, int]]:
    """The scores that a policy enables, with their weights."""
    return [(SCORES[item.name](policy, estimator), item.weight) for item in policy.plugins.score]
