"""The cgroups of pods, as the kubelet makes them with either cgroup driver.

    systemd     kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice
    cgroupfs    kubepods/burstable/pod<uid>

Guaranteed pods stand directly below `kubepods`; systemd has `_` in a uid for `-`. With a cgroup
root of the kubelet's own (`--cgroup-root`, as in kind) all of it is one folder deeper. The uid is
the one that the kubelet knows a pod by. That of a static pod is the hash of its manifest, which
the API server has as annotation `kubernetes.io/config.mirror` and not as metadata.uid.
"""

import re

from connectors.agent.files import Files

_SYSTEMD = re.compile(r"(?:[\w-]+-)?pod([0-9A-Za-z_]{1,128})\.slice")
_CGROUPFS = re.compile(r"pod([0-9A-Za-z-]{1,128})")
_KUBEPODS = re.compile(r"kubepods|(?:[\w-]+-)?kubepods\.slice")
_QOS = re.compile(r"besteffort|burstable|[\w-]+-(?:besteffort|burstable)\.slice")


def pod_uid(folder: str) -> str | None:
    """uid of the pod whose cgroup has this name; None where it is no pod's."""
    if match := _SYSTEMD.fullmatch(folder):
        return match[1].replace("_", "-")
    match = _CGROUPFS.fullmatch(folder)
    return match[1] if match else None


class PodCgroups:
    """Finds the pods below the roots of the cgroup trees."""

    def __init__(self, files: Files, roots: tuple[str, ...]) -> None:
        self._files, self._roots = files, roots

    def look(self) -> dict[str, str]:
        """Path of each pod's cgroup below the root, by uid."""
        for root in self._roots:
            found: dict[str, str] = {}
            for parent in self._parents(root):
                for path, folder in self._below(root, parent):
                    uid = pod_uid(folder)
                    if uid is not None:
                        found[uid] = path
            if found:
                return found
        return {}

    def _parents(self, root: str) -> list[str]:
        """Folders called kubepods, at most one folder deep."""
        top = self._folders(root)
        found = [each for each in top if _KUBEPODS.fullmatch(each)]
        if found:
            return found
        return [
            f"{each}/{below}"
            for each in top
            for below in self._folders(f"{root}/{each}")
            if _KUBEPODS.fullmatch(below)
        ]

    def _below(self, root: str, parent: str) -> list[tuple[str, str]]:
        """Path and name of what is below kubepods and below its QoS classes."""
        found = []
        for each in self._folders(f"{root}/{parent}"):
            path = f"{parent}/{each}"
            if _QOS.fullmatch(each):
                found += [(f"{path}/{name}", name) for name in self._folders(f"{root}/{path}")]
            else:
                found.append((path, each))
        return found

    def _folders(self, path: str) -> list[str]:
        return self._files.folders("pods", path)
