"""The file that lists the sources of a cluster."""

import pytest

from connectors.kubernetes.sources.kubelet.requests import KubeletSettings
from connectors.kubernetes.sources.prometheus import PrometheusSettings
from connectors.kubernetes.sources.registry import list_settings_classes
from connectors.kubernetes.sources.settings import DEFAULT_TEXT, SourcesError, read_sources

_KNOWN = list_settings_classes()


def test_settings_are_in_the_order_of_the_file() -> None:
    kubelet, prometheus = read_sources(
        """
        sources:
          - source: kubelet_resource
            interval: 5s
            via: apiServer
          - {source: prometheus, url: "http://prometheus:9090", presets: [cadvisor], name: gpus}
        """,
        _KNOWN,
    )
    assert isinstance(kubelet, KubeletSettings)
    assert (kubelet.label, kubelet.interval_ms, kubelet.via) == (
        "kubelet_resource",
        5_000,
        "apiServer",
    )
    assert isinstance(prometheus, PrometheusSettings)
    assert (prometheus.label, prometheus.fresh_ms) == ("gpus", 90_000)


def test_without_a_file_kubelets_are_the_source() -> None:
    (only,) = read_sources(DEFAULT_TEXT, _KNOWN)
    assert only == KubeletSettings(source="kubelet_resource")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"file: found 0 documents; allowed is one"),
        ("- a", r"file: line 1: found a list of 1; allowed is a map with the field sources"),
        ("sources: []", r"line 1: sources: found an empty list; allowed is a list of 1 to 16 sources"),
        ("source: []", r'line 1: source: unknown field; did you mean "sources"\?'),
        ("sources: [x]", r'sources\[0\]: found "x" \(text\); allowed is a map with the field source'),
        ("sources: [{}]", r"sources\[0\].source: found null; allowed is one of koordinator, kubelet_"),
        ("sources: [{source: kubelet_resorce}]", r'did you mean "kubelet_resource"\?'),
        ("sources:\n- source: kubelet_resource\n  intervall: 5s", r'line 3: sources\[0\].intervall: unknown field; did you mean "interval"\?'),
        ("sources:\n- source: prometheus\n", r"line 2: sources\[0\].url: required, but not given"),
        ("sources: [{source: kubelet_resource}, {source: kubelet_resource}]", r"sources\[1\].name: found 'kubelet_resource' a second time"),
        ("sources: [{source: kubelet_resource, insecure: 1}]", r"insecure: found 1; allowed is true or false"),
        ("sources: [{source: kubelet_resource, via: apiServer, caFile: a}]", r"caFile: found with via: apiServer"),
        ("sources: [{source: kubelet_resource, via: apiServer, addresses: [Hostname]}]", r"addresses: found with via"),
        ("sources: [{source: kubelet_resource, caFile: a, insecure: true}]", r"caFile: found with insecure: true"),
        ("sources: [{source: kubelet_resource, url: 'http://p/{node}', caFile: a}]", r"caFile: found with a url of http://"),
        ("sources: [{source: kubelet_resource, url: 'http://p/{node}', insecure: true}]", r"insecure: found with a url"),
        ("sources: [{source: kubelet_resource, url: 'http://p/{node}', sendCredentials: true}]", r"sendCredentials: found with a url"),
        ("sources: [{source: kubelet_resource, url: 'https://p/{node}', addresses: [Hostname]}]", r"addresses: found with a url without {address}"),
        ("sources: [{source: kubelet_resource, url: 'http://127.0.0.1:1/metrics'}]", r"url: invalid URL template"),
        ("sources: [{source: kubelet_resource, url: 'http://{node.name}/metrics'}]", r"url: invalid URL template"),
        ("sources: [{source: prometheus, presets: [cadvisor], url: 'http://p', tokenFile: t}]", r"tokenFile: found with a url of http://"),
        ("sources: [{source: prometheus, presets: [cadvisor], url: 'https://p', caFile: t, insecure: true}]", r"caFile: found with insecure"),
        ("sources: [{source: prometheus, url: 'http://p', nodes: {cpu: a, nvidia.com/gpu: b}}]", r"line 1: sources: no source measures both cpu and memory of nodes, so no sample would be sent"),
        ("sources: [", r"not readable as YAML"),
    ],
)  # fmt: skip
def test_errors_name_line_and_field(text: str, complaint: str) -> None:
    with pytest.raises(SourcesError, match=complaint):
        read_sources(text, _KNOWN, "file")


def test_unknown_fields_are_reported_in_the_order_of_the_file() -> None:
    names = [f"field{letter}" for letter in "hcafbgde"]
    lines = "".join(f"{name}: 1\n" for name in names)
    with pytest.raises(SourcesError) as error:
        read_sources(f"{lines}sources: [{{source: kubelet_resource}}]\n", _KNOWN)
    paths = [line.split(": ")[2] for line in str(error.value).splitlines()]
    assert paths == names
