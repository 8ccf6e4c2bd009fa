"""Find the cgroups of pods, and the names of pods, without the API server.

The mount has one of these forms; its path is a setting, so that a pod can read the node's mount:

    v2        everything at the root, which has a file `cgroup.controllers`
    v1        a folder per controller: cpuacct (or cpu,cpuacct) and memory
    hybrid    v1 with a v2 hierarchy in `unified`; each controller is in one of the two

The kubelet creates cgroups by its cgroup driver:

    systemd     kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice
    cgroupfs    kubepods/burstable/pod<uid>

Guaranteed pods are directly below `kubepods`. systemd writes `_` instead of `-` in uids. If the
kubelet has its own cgroup root (`--cgroup-root`, as in kind), everything is one folder deeper. The uid
of a static pod is the hash of its manifest, which the API server has as annotation
`kubernetes.io/config.mirror` and not as metadata.uid.

Cgroups only have uids. The kubelet keeps a log folder `<namespace>_<name>_<uid>` for each pod of its
node, and creates it before the first container starts; namespaces and names cannot contain `_`. The
usage of a pod without such a folder counts as the node's system part. If no pod has a folder, that
is a failure: the path is probably wrong.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path

from connectors.agent.files import Files
from connectors.agent.measures import parse_cpu_stat

_V1_CPU = ("cpuacct", "cpu,cpuacct", "cpuacct,cpu")


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The hierarchies with CPU time and memory; at least one exists."""

    cpu: str | None
    """Root of the hierarchy with CPU time, if any."""
    cpu_file: str
    """Name of a cgroup's file with its CPU time."""
    parse_cpu: Callable[[str], int]
    """Returns the nanoseconds in the file."""
    memory: str | None
    """Root of the hierarchy with memory, if any."""

    @property
    def roots(self) -> tuple[str, ...]:
        """Roots to search for cgroups of pods, in order."""
        return tuple(dict.fromkeys(root for root in (self.cpu, self.memory) if root))


def find_hierarchies(root: Path) -> Hierarchies:
    """Return the hierarchies below a mount; raises FileNotFoundError if there are none."""
    unified = next((path for path in (root, root / "unified") if _is_v2(path)), None)
    v1_cpu = next(
        (root / name for name in _V1_CPU if (root / name / "cpuacct.usage").exists()), None
    )
    memory = root / "memory" if (root / "memory" / "memory.stat").exists() else unified
    if unified is None and v1_cpu is None and memory is None:
        raise FileNotFoundError(
            ENOENT,
            "found neither cgroup.controllers (v2) nor folders cpuacct and memory (v1); expected "
            "the node's cgroup mount",
            str(root),
        )
    cpu = v1_cpu or unified
    return Hierarchies(
        cpu=str(cpu) if cpu else None,
        cpu_file="cpuacct.usage" if v1_cpu else "cpu.stat",
        parse_cpu=int if v1_cpu else parse_cpu_stat,
        memory=str(memory) if memory else None,
    )


def _is_v2(folder: Path) -> bool:
    return (folder / "cgroup.controllers").exists()


_SYSTEMD = re.compile(r"(?:[\w-]+-)?pod([0-9A-Za-z_]{1,128})\.slice")
_CGROUPFS = re.compile(r"pod([0-9A-Za-z-]{1,128})")
_KUBEPODS = re.compile(r"kubepods|(?:[\w-]+-)?kubepods\.slice")
_QOS = re.compile(r"besteffort|burstable|[\w-]+-(?:besteffort|burstable)\.slice")


def parse_pod_uid(folder: str) -> str | None:
    """Return the pod's uid from the name of its cgroup; None if the cgroup is not of a pod."""
    if match := _SYSTEMD.fullmatch(folder):
        return match[1].replace("_", "-")
    match = _CGROUPFS.fullmatch(folder)
    return match[1] if match else None


class PodCgroups:
    """Finds the pods below the roots of the cgroup hierarchies."""

    def __init__(self, files: Files, roots: tuple[str, ...]) -> None:
        self._files, self._roots = files, roots

    def find(self) -> dict[str, str]:
        """Return the path of each pod's cgroup below the root, by uid."""
        for root in self._roots:
            paths: dict[str, str] = {}
            for parent in self._parents(root):
                for path, folder in self._below(root, parent):
                    uid = parse_pod_uid(folder)
                    if uid is not None:
                        paths[uid] = path
            if paths:
                return paths
        return {}

    def _parents(self, root: str) -> list[str]:
        """Return folders called kubepods, at most one level below the root."""
        top = self._folders(root)
        parents = [name for name in top if _KUBEPODS.fullmatch(name)]
        if parents:
            return parents
        return [
            f"{name}/{child}"
            for name in top
            for child in self._folders(f"{root}/{name}")
            if _KUBEPODS.fullmatch(child)
        ]

    def _below(self, root: str, parent: str) -> list[tuple[str, str]]:
        """Return path and name of the folders below kubepods and below its QoS classes."""
        folders = []
        for folder in self._folders(f"{root}/{parent}"):
            path = f"{parent}/{folder}"
            if _QOS.fullmatch(folder):
                folders += [(f"{path}/{name}", name) for name in self._folders(f"{root}/{path}")]
            else:
                folders.append((path, folder))
        return folders

    def _folders(self, path: str) -> list[str]:
        return self._files.list_folders("pods", path)


_FOLDER = re.compile(r"([a-z0-9.-]{1,253})_([a-z0-9.-]{1,253})_([0-9A-Za-z-]{1,128})")


class PodNames:
    """Names of the pods on this node."""

    def __init__(self, files: Files, folder: str) -> None:
        """`folder` is the kubelet's folder with logs of pods."""
        self._files, self._folder = files, folder
        self._names: dict[str, tuple[str, str]] = {}

    def find(self, uids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return namespace and name by uid; pods without a name are left out."""
        pod_uids = set(uids)
        if not pod_uids <= self._names.keys():
            failed = self._files.failures["names"]
            for folder in self._files.list_folders("names", self._folder):
                if match := _FOLDER.fullmatch(folder):
                    self._names[match[3]] = (match[1], match[2])
            if pod_uids.isdisjoint(self._names) and failed == self._files.failures["names"]:
                self._files.fail(
                    "names",
                    f"{self._folder}: found no folder of any of {len(pod_uids)} pods; expected the "
                    "kubelet's log folders NAMESPACE_NAME_UID",
                )
        self._names = {uid: name for uid, name in self._names.items() if uid in pod_uids}
        return self._names
