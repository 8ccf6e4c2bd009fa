"""Find the cgroups of pods, and the names of pods, without the API server.

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
from collections.abc import Iterable

from connectors.agent.files import Files

_SYSTEMD = re.compile(r"(?:[\w-]+-)?pod([0-9A-Za-z_]{1,128})\.slice")
_CGROUPFS = re.compile(r"pod([0-9A-Za-z-]{1,128})")
_KUBEPODS = re.compile(r"kubepods|(?:[\w-]+-)?kubepods\.slice")
_QOS = re.compile(r"besteffort|burstable|[\w-]+-(?:besteffort|burstable)\.slice")


def parse_pod_uid(folder: str) -> str | None:
    """Return the uid of the pod whose cgroup has this name; None if it is not a pod's cgroup."""
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
        self._known: dict[str, tuple[str, str]] = {}

    def find(self, uids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return namespace and name by uid; pods without a name are left out."""
        wanted = set(uids)
        if not wanted <= self._known.keys():
            failed = self._files.failures["names"]
            for folder in self._files.list_folders("names", self._folder):
                if match := _FOLDER.fullmatch(folder):
                    self._known[match[3]] = (match[1], match[2])
            if wanted.isdisjoint(self._known) and failed == self._files.failures["names"]:
                self._files.fail(
                    "names",
                    f"{self._folder}: found no folder of any of {len(wanted)} pods; expected the "
                    "kubelet's log folders NAMESPACE_NAME_UID",
                )
        self._known = {uid: name for uid, name in self._known.items() if uid in wanted}
        return self._known
