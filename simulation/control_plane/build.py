"""Builds the program `control-plane` from a Go module into the cache directory.

The program contains kube-apiserver, etcd, kube-controller-manager and kwok. Its file name has a hash of the
module's files, the build options and the version of Go, so only a change causes another build.
Concurrent and interrupted builds are safe.

The first build takes minutes: it downloads 175 MB and compiles 2,700 packages. Go caches the compiled
packages, so later builds only link.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from connectors.process.child_process import create_once
from connectors.process.terminal import echo
from schemas.settings.announcement import cache_directory

#: Environment variable with the directory of the Go module.
MODULE_VARIABLE = "LOADSTREAM_CONTROL_PLANE_MODULE"
#: Files of the module that the hash covers.
_SOURCES = ("go.mod", "go.sum", "main.go")
#: Ten times the duration of a build on two busy cores.
_BUILD_TIMEOUT_S = 3600
_QUERY_TIMEOUT_S = 300
#: Number of lines of a failed build that a message shows.
_SHOWN_LINES = 15
_OPTIONS = ("-trimpath", "-buildvcs=false", "-mod=readonly")


class ControlPlaneUnavailable(RuntimeError):
    """No control plane can run on this machine; the message has the reason."""


def find_module(directory: Path | None = None) -> Path:
    """Return the Go module: `directory`, else `$LOADSTREAM_CONTROL_PLANE_MODULE`.

    Raises ControlPlaneUnavailable if the directory contains no module.
    """
    module = directory or Path(os.environ.get(MODULE_VARIABLE) or ".")
    missing = [name for name in _SOURCES if not (module / name).is_file()]
    if missing:
        raise ControlPlaneUnavailable(
            f"{module.absolute()} has no {', '.join(missing)}: a control plane is built from a Go "
            f"module; set {MODULE_VARIABLE} to the directory of the module, tests/control_plane in "
            "the source code"
        )
    return module.absolute()


def build(module: Path | None = None) -> Path:
    """Return the file of the program; build it if it does not exist yet.

    Raises ControlPlaneUnavailable if Go or the module is missing, or the build fails.
    """
    source = find_module(module)
    if shutil.which("go") is None:
        raise ControlPlaneUnavailable(
            "a control plane is built with Go, and there is no `go` on the PATH: install Go "
            f"{_find_required_version(source, 'go')} or newer (https://go.dev/dl)"
        )
    digest = hashlib.sha256(_run_go("env", "GOVERSION", source=source).encode())
    for option in (*_OPTIONS, *_link_options(source)):
        digest.update(option.encode())
    for name in _SOURCES:
        digest.update((source / name).read_bytes())
    binary = cache_directory() / f"control-plane-{digest.hexdigest()[:12]}"
    return create_once(binary, partial(_build, source))


def _build(source: Path, binary: Path) -> None:
    with tempfile.TemporaryDirectory(dir=binary.parent, prefix="control-plane-build-") as scratch:
        built = Path(scratch) / "control-plane"
        link = " ".join(_link_options(source))
        options = (*_OPTIONS, "-ldflags", link, "-o", str(built), ".")
        echo("building a control plane with Go: the first time, this takes minutes ...", err=True)
        _run_go("build", *options, source=source, timeout_s=_BUILD_TIMEOUT_S)
        # The file gets its name at the end, so it is always complete.
        built.rename(binary)


def _run_go(*arguments: str, source: Path, timeout_s: float = _QUERY_TIMEOUT_S) -> str:
    """Return the output of a Go command. Raises ControlPlaneUnavailable if the command fails."""
    invocation = f"`go {arguments[0]}` in {source}"
    try:
        completed = subprocess.run(  # noqa: S603 - made of our own words and paths
            ["go", *arguments],  # noqa: S607
            cwd=source,
            # The program must not depend on whether a C compiler is installed.
            env={**os.environ, "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ControlPlaneUnavailable(
            f"{invocation} did not end within {timeout_s:.0f} s; is a Go module proxy reachable "
            "(`go env GOPROXY`)?"
        ) from None
    if completed.returncode != 0:
        lines = (completed.stdout + completed.stderr).strip().splitlines()[-_SHOWN_LINES:]
        raise ControlPlaneUnavailable("\n".join([f"{invocation} failed:", *lines]))
    return completed.stdout.strip()


def _link_options(source: Path) -> tuple[str, ...]:
    """Return options that remove debug symbols and set the version of the API server."""
    version = _find_required_version(source, "k8s.io/kubernetes")
    major, minor, _ = version.removeprefix("v").split(".", 2)
    version_values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    package = "k8s.io/component-base/version"
    return ("-s", "-w", *(f"-X {package}.{name}={value}" for name, value in version_values.items()))


def _find_required_version(source: Path, name: str) -> str:
    """Return the version of a module, or of Go, that go.mod requires."""
    for line in (source / "go.mod").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[:1] == ["require"]:
            words = words[1:]
        if len(words) > 1 and words[0] == name:
            return words[1]
    raise ControlPlaneUnavailable(f"{source / 'go.mod'} has no version of {name}")
