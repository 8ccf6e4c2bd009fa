"""The locks: versions and hashes of everything that is installed."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ("run", "dev", "build")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _locked(name: str) -> dict[str, set[str]]:
    """Return versions by package; some packages have one version per version of Python."""
    versions: dict[str, set[str]] = {}
    for line in _text(name).splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)==([^ ;]+)", line):
            versions.setdefault(canonicalize_name(match[1]), set()).add(match[2])
    return versions


def _text(name: str) -> str:
    return (ROOT / f"locks/{name}.txt").read_text(encoding="utf-8")


def _requirements(name: str) -> list[Requirement]:
    groups = PROJECT["dependency-groups"]
    texts = {
        "run": PROJECT["project"]["dependencies"],
        "build": groups["build"],
        "dev": [
            *PROJECT["project"]["dependencies"], *groups["test"], *groups["lint"], *groups["build"],
        ],
    }[name]  # fmt: skip
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_meets_the_requirements_of_the_project(name: str) -> None:
    locked = _locked(name)
    for requirement in _requirements(name):
        versions = locked.get(canonicalize_name(requirement.name), set())
        assert any(requirement.specifier.contains(version) for version in versions), (
            f"{requirement} is not in locks/{name}.txt; `make lock` locks anew"
        )


def test_the_image_has_the_tested_versions() -> None:
    dev = _locked("dev")
    for name in ("run", "build"):
        for package, versions in _locked(name).items():
            assert versions <= dev[package], package


def test_image_and_checkout_are_installed_from_the_locks_with_hashes() -> None:
    script = (ROOT / "deploy/install.sh").read_text(encoding="utf-8")
    for name in ("run", "build"):
        assert re.search(rf"--require-hashes -r locks/{name}\.txt", script)
    image = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    assert "deploy/install.sh /opt/loadstream" in image
    assert " pip install" not in image
    checkout = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--require-hashes -r locks/dev.txt" in checkout
    assert "--no-deps --no-build-isolation --editable ." in checkout
