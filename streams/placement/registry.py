"""The registry of filters and scores. Policies enable, order and weigh them by name.

The registry finds the plugins in all modules of `filters` and `scores`, so a new plugin needs only one
new module. `schemas.policy.sections.plugins` has the defaults: cheap filters that refuse most come first.
"""

import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from types import ModuleType

from schemas.policy import BUILT_IN, KnownPlugins, Policy
from streams.placement import filters, scores
from streams.placement.filters.taints import PreferNoSchedule, TaintToleration
from streams.placement.plugin import Filter, Plugin, Score
from streams.usage.estimate import Estimator


def _find_classes(package: ModuleType) -> Iterator[type[Plugin]]:
    for info in pkgutil.iter_modules(package.__path__):
        module = import_module(f"{package.__name__}.{info.name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            is_defined_here = cls.__module__ == module.__name__
            if is_defined_here and issubclass(cls, Plugin) and not inspect.isabstract(cls):
                yield cls


def _sort_names(names: Iterable[str], built_in: tuple[str, ...]) -> list[str]:
    return [*built_in, *sorted(set(names) - set(built_in))]


_FILTERS = {cls.name: cls for cls in _find_classes(filters) if issubclass(cls, Filter)}
del _FILTERS[PreferNoSchedule.name]  # policies cannot name it
_SCORES = {cls.name: cls for cls in _find_classes(scores) if issubclass(cls, Score)}

#: Factories of filters, built-in ones first.
FILTERS: dict[str, Callable[[Policy, Estimator], Filter]] = {
    name: _FILTERS[name].build for name in _sort_names(_FILTERS, BUILT_IN.filter)
}
#: Factories of scores, built-in ones first.
SCORES: dict[str, Callable[[Policy, Estimator], Score]] = {
    name: _SCORES[name].build for name in _sort_names(_SCORES, BUILT_IN.score)
}
#: Names that a policy may use.
KNOWN = KnownPlugins(tuple(FILTERS), tuple(SCORES), BUILT_IN.balance)


def build_filters(policy: Policy, estimator: Estimator) -> list[Filter]:
    plugins = [FILTERS[item.name](policy, estimator) for item in policy.plugins.filter]
    if policy.compat == "loadstream" and policy.plugins.filters(TaintToleration.name):
        plugins.append(PreferNoSchedule())
    return plugins


def build_scores(policy: Policy, estimator: Estimator) -> list[tuple[Score, int]]:
    return [(SCORES[item.name](policy, estimator), item.weight) for item in policy.plugins.score]
