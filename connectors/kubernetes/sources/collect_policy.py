"""How often Koordinator's agent reports, as its configuration says.

The ConfigMap `slo-controller-config` has, under `colocation-config`, a policy for all nodes and
others for nodes with certain labels. Koordinator's manager writes it into each NodeMetric object
(`spec.metricCollectPolicy`), where the agent reads it; so what the object says counts, and the
ConfigMap fills in where an object says nothing. An interval of 0 or below is not applied, as
upstream.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from schemas.policy.wording import describe

NAMESPACE, NAME, KEY = "koordinator-system", "slo-controller-config", "colocation-config"


class PolicyUnreadable(ValueError):
    """The ConfigMap is not what it should be; the message says how."""


@dataclass(frozen=True, slots=True)
class CollectIntervals:
    """Report intervals in ms; none: the ConfigMap does not say."""

    of_cluster_ms: int | None = None
    of_nodes: tuple[tuple[Mapping[str, Any], int | None], ...] = ()
    """Label selector and interval of each policy for certain nodes, in order."""

    def report_ms(self, spec: Mapping[str, Any], labels: Mapping[str, str]) -> int | None:
        """The interval of a node, by its NodeMetric's spec and its own labels."""
        said = _interval_ms((spec.get("metricCollectPolicy") or {}).get("reportIntervalSeconds"))
        if said is not None:
            return said
        for selector, interval_ms in self.of_nodes:
            if _selects(selector, labels):
                # The first that selects a node holds, and inherits what it does not give.
                return interval_ms or self.of_cluster_ms
        return self.of_cluster_ms


def read_config_map(found: Mapping[str, Any]) -> CollectIntervals:
    """What the ConfigMap says; raises PolicyUnreadable."""
    text = (found.get("data") or {}).get(KEY)
    if not text:
        return CollectIntervals()
    try:
        return _read(orjson.loads(text))
    except (orjson.JSONDecodeError, AttributeError, TypeError) as error:
        named = found.get("metadata") or {}
        place = f"{named.get('namespace', NAMESPACE)}/{named.get('name', NAME)}"
        raise PolicyUnreadable(f"ConfigMap {place}, {KEY}: {error}") from error


def _read(config: Any) -> CollectIntervals:
    """What the key says; raises TypeError and AttributeError."""
    if config is None:  # as good as {} to upstream
        return CollectIntervals()
    if not isinstance(config, dict):
        raise TypeError(f"found {describe(config)}; allowed is a map")
    return CollectIntervals(
        _given_ms(config),
        tuple(
            (_readable(each["nodeSelector"]), _given_ms(each))
            for each in config.get("nodeConfigs") or ()
            if each.get("nodeSelector") is not None
        ),
    )


def _given_ms(config: Mapping[str, Any]) -> int | None:
    """The interval that a policy gives; raises TypeError, as upstream reads none of it then."""
    seconds = config.get("metricReportIntervalSeconds")
    if seconds is not None and type(seconds) is not int:
        raise TypeError(
            f"metricReportIntervalSeconds: found {describe(seconds)}; allowed is an integer"
        )
    return _interval_ms(seconds)


def _readable(selector: Any) -> Mapping[str, Any]:
    """The label selector; raises TypeError where its parts are not of their types."""
    labels, expressions = selector.get("matchLabels"), selector.get("matchExpressions")
    if not isinstance(labels, dict | None):
        raise TypeError(f"nodeSelector.matchLabels: found {labels!r}; allowed is a map")
    if not isinstance(expressions, list | None) or not all(
        isinstance(each, dict)
        and isinstance(each.get("key"), str)
        and isinstance(each.get("values"), list | None)
        for each in expressions or ()
    ):
        raise TypeError(
            f"nodeSelector.matchExpressions: found {expressions!r}; allowed is a list of maps with key, "
            "operator and a list of values"
        )
    return {"matchLabels": labels, "matchExpressions": expressions}


def _interval_ms(seconds: object) -> int | None:
    if not isinstance(seconds, int) or not 0 < seconds < 2**31:
        return None
    return seconds * 1_000


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """A Kubernetes label selector; one with an unknown operator selects nothing."""
    for name, value in (selector.get("matchLabels") or {}).items():
        if labels.get(name) != value:
            return False
    for each in selector.get("matchExpressions") or ():
        name, values = each.get("key"), each.get("values") or ()
        match each.get("operator"):
            case "In":
                good = labels.get(name) in values
            case "NotIn":
                good = labels.get(name) not in values
            case "Exists":
                good = name in labels
            case "DoesNotExist":
                good = name not in labels
            case _:
                good = False
        if not good:
            return False
    return True
