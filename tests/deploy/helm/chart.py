"""Builds Helm once from the Go module in this folder into the cache, and renders the chart."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.process.child_process import create_once
from schemas.settings.announcement import cache_directory

MODULE = Path(__file__).parent
CHART = MODULE.parents[2] / "deploy" / "chart"
#: Files of values, each of which the chart is rendered with.
VALUES = tuple(sorted((MODULE.parent / "values").glob("*.yaml")))
NAMESPACE = "loadstream"
_BUILD = ("build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", "-s -w")
_OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.88.0"
_PACKAGE = "helm.sh/helm/v4/cmd/helm"
#: The first build takes four minutes on two busy cores.
_BUILD_TIMEOUT_S = 3600


class HelmFailed(RuntimeError):
    """Helm could not be built or ended with an error; the message is its output."""


@cache
def build() -> Path:
    """Return the program's file, built first if this version does not exist yet.

    Skips the test without Go, unless everything is required. Raises HelmFailed.
    """
    if shutil.which("go") is None:
        if os.environ.get("LOADSTREAM_REQUIRE_ALL") == "1":
            raise HelmFailed("Helm is built with Go, and there is no `go` on the PATH")
        pytest.skip("no Helm: there is no `go` on the PATH")
    digest = hashlib.sha256(_go("env", "GOVERSION").encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    return create_once(cache_directory() / f"helm-{digest.hexdigest()[:12]}", _build)


def run(*arguments: str) -> str:
    """Run Helm and return its output; raises HelmFailed with its standard error."""
    with tempfile.TemporaryDirectory() as home:
        homes = {f"HELM_{kind}_HOME": home for kind in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(  # noqa: S603 - our own words and paths
            [build(), *arguments], env={**os.environ, **homes}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise HelmFailed(done.stderr + done.stdout)
    return done.stdout


@cache
def render(values: Path, *arguments: str, release: str = "loadstream") -> list[dict[str, Any]]:
    """Return the objects of the chart with a file of values and further arguments."""
    text = run(
        "template",
        release,
        str(CHART),
        "--namespace",
        NAMESPACE,
        "--values",
        str(values),
        *arguments,
    )
    return [document for document in yaml.safe_load_all(text) if document]


def find(objects: Iterable[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """Return the object of this kind and name."""
    (matching,) = (e for e in objects if (e["kind"], e["metadata"]["name"]) == (kind, name))
    return matching


def pods(objects: Iterable[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the pod template of each object that has one, with the object's name."""
    for item in objects:
        if "template" in item.get("spec", {}):
            yield item["metadata"]["name"], item["spec"]["template"]


def crd(resource: str) -> dict[str, Any]:
    """Return the definition of a kind of Prometheus Operator from its Go module."""
    directory = json.loads(_go("mod", "download", "-json", _OPERATOR))["Dir"]
    path = Path(
        directory, "example/prometheus-operator-crd", f"monitoring.coreos.com_{resource}.yaml"
    )
    read: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return read


def _build(binary: Path) -> None:
    with tempfile.TemporaryDirectory(dir=binary.parent, prefix="helm-build-") as scratch:
        _go(*_BUILD, "-o", f"{scratch}/helm", _PACKAGE)
        Path(scratch, "helm").rename(binary)


def _go(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own words and paths
        ["go", *arguments], cwd=MODULE, env={**os.environ, "CGO_ENABLED": "0"},  # noqa: S607
        capture_output=True, text=True, check=False, timeout=_BUILD_TIMEOUT_S,
    )  # fmt: skip
    if done.returncode != 0:
        raise HelmFailed(f"go {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()
