"""Find namespace and name of a pod by its uid, without the API server.

Cgroups only have uids. The kubelet keeps a log folder `<namespace>_<name>_<uid>` for each pod of its
node, and creates it before the first container starts; namespaces and names cannot contain `_`. The
usage of a pod without such a folder counts as the node's system part. If no pod has a folder, that
is a failure: the path is probably wrong.
"""

import re
from collections.abc import Iterable

from connectors.agent.files import Files

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
