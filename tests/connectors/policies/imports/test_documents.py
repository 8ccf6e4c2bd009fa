"""Configurations are found in common places, with the lines of the file."""

import json

import pytest

from tests.connectors.policies.imports.harness import KOORDINATOR, import_text

_PROFILE = """\
profiles:
- name: koord-descheduler
  pluginConfig:
  - name: LowNodeLoad
    args:
      lowThresholds: {cpu: 30}
      highThresholds: {cpu: 60}
  plugins: {balance: {enabled: [{name: LowNodeLoad}]}}
"""
_TEXT = KOORDINATOR + _PROFILE


def _indent(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


_WRAPPED = {
    "alone": _TEXT,
    "one of several documents": "apiVersion: v1\nkind: Service\n---\n" + _TEXT,
    "a ConfigMap": "apiVersion: v1\nkind: ConfigMap\ndata:\n  config.yaml: |\n" + _indent(_TEXT, 4),
    "a list": "apiVersion: v1\nkind: List\nitems:\n- kind: ConfigMap\n  data:\n    config: |\n"
    + _indent(_TEXT, 6),
    "quoted text": f"kind: ConfigMap\ndata:\n  config: {json.dumps(_TEXT)}\n",
    "Helm values": "kind: HelmRelease\nspec:\n  values:\n    config: |\n" + _indent(_TEXT, 6),
    "without a kind": _PROFILE,
}


@pytest.mark.parametrize("text", _WRAPPED.values(), ids=_WRAPPED)
def test_a_configuration_is_found_in(text: str) -> None:
    imported = import_text(text)
    assert imported.exit_code == 0, imported.errors
    assert imported.policy.rebalance.high_thresholds == {"cpu": 60}
    assert imported.policy.compat == "koordinator"


@pytest.mark.parametrize(
    ("name", "line"),
    [("alone", 8), ("one of several documents", 11), ("a ConfigMap", 12), ("a list", 14),
     ("quoted text", 3), ("without a kind", 6)],
)  # fmt: skip
def test_an_error_names_the_line_of_the_file(name: str, line: int) -> None:
    imported = import_text(_WRAPPED[name].replace("lowThresholds", "lowThreshold"))
    assert imported.exit_code == 1
    assert imported.text == ""
    assert imported.errors[0].startswith(f"standard input:{line}: ")
    assert 'did you mean "lowThresholds"?' in imported.errors[0]


def test_a_value_that_the_policy_refuses_is_an_error_at_its_line() -> None:
    imported = import_text(_WRAPPED["a ConfigMap"].replace("{cpu: 30}", "{cpu: 70}"))
    assert imported.exit_code == 1
    assert imported.errors[0].startswith("standard input:12: ")
    assert "lowThresholds is 70 and highThresholds is 60" in imported.errors[0]


def test_the_copy_that_kubectl_keeps_in_an_annotation_is_not_read() -> None:
    copy = json.dumps({"data": {"config": _TEXT.replace("cpu: 60", "cpu: 99")}})
    text = _WRAPPED["a ConfigMap"] + (
        "metadata:\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: |\n"
        f"      {copy}\n"
    )
    assert import_text(text).policy.rebalance.high_thresholds == {"cpu": 60}


def test_a_key_that_is_repeated_with_the_same_value_is_read_and_with_another_one_is_an_error() -> (
    None
):
    before, line = "      lowThresholds:", "      detectorCacheTimeout: 5m0s\n"
    assert import_text(_TEXT.replace(before, line * 2 + before)).exit_code == 0
    for second in (line.replace("5m", "6m"), "      detectorCacheTimeout:\n        5m0s\n"):
        imported = import_text(_TEXT.replace(before, line + second + before))
        assert imported.errors[0].startswith("standard input:9: ")
        assert "found a second time, also in line 8" in imported.errors[0]


def test_two_configurations_that_contradict_each_other_are_an_error_with_both_lines() -> None:
    imported = import_text(f"{_TEXT}---\n{_TEXT.replace('cpu: 60', 'cpu: 70')}")
    assert imported.errors[0].startswith("standard input:20: ")
    assert "the first is in line 9" in imported.errors[0]
