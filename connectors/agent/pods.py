"""Find the cgroups of pods, as the kubelet creates them with either cgroup driver.

    systemd     kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice
    cgroupfs    kubepods/burstable/pod<uid>

Guaranteed pods are directly below `kubepods`. systemd writes `_` instead of `-` in uids. If the
kubelet has its own cgroup root (`--cgroup-root`, as in kind), everything is one folder deeper. The uid
of a static pod is the hash of its manifest, which the API server has as annotation
`kubernetes.io/config.mirror` and not as metadata.uid.
"""

import re

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
