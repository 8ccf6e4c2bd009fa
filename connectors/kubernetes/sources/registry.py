"""The usage sources of a real cluster, by their names in settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from connectors.kubernetes.sources.base import KubernetesSource, SourceContext
from connectors.kubernetes.sources.koordinator import Koordinator
from connectors.kubernetes.sources.kubelet.resource import KubeletResource
from connectors.kubernetes.sources.metrics_api import MetricsApi
from connectors.kubernetes.sources.prometheus import Prometheus
from connectors.kubernetes.sources.settings import SourceSettings

_CLASSES: tuple[type[KubernetesSource[Any]], ...] = (
    Koordinator,
    KubeletResource,
    MetricsApi,
    Prometheus,
)
SOURCES = {source.name: source for source in _CLASSES}


def list_settings_classes() -> Mapping[str, type[SourceSettings]]:
    return {name: source.settings_class for name, source in SOURCES.items()}


def create_sources(
    settings: Sequence[SourceSettings], context: SourceContext
) -> list[KubernetesSource[SourceSettings]]:
    return [SOURCES[item.source](item, context) for item in settings]
