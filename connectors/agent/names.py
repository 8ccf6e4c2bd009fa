"""Namespace and name of a pod by its uid, without any API server.

Cgroups carry the uid alone. The kubelet keeps a folder `<namespace>_<name>_<uid>` for the logs of
each pod on its node, made before the pod's first container starts; neither namespace nor name may
have a `_`. A pod without such a folder is without a name: its usage counts to the system part of
the node until it has one. That no pod has a name is a failure: the folder is another one.
"""

import re
from collections.abc import Iterable

from connectors.agent.files import Files

_FOLDER = re.compile(r"([a-z0-9.-]{1,253})_([a-z0-9.-]{1,253})_([0-9A-Za-z-]{1,128})")


class PodNames:
    """Names of the pods of this node."""

    def __init__(self, files: Files, folder: str) -> None:
        """`folder` is the kubelet's for logs of pods."""
        self._files, self._folder = files, folder
        self._known: dict[str, tuple[str, str]] = {}

    def of(self, uids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Namespace and name by uid; pods that have none are left out."""
        wanted = set(uids)
        if not wanted <= self._known.keys():
            failed = self._files.failures["names"]
            for each in self._files.folders("names", self._folder):
                if match := _FOLDER.fullmatch(each):
                    self._known[match[3]] = (match[1], match[2])
            if wanted.isdisjoint(self._known) and failed == self._files.failures["names"]:
                self._files.fail(
                    "names",
                    f"{self._folder}: found the folder of none of {len(wanted)} pods; expected the "
                    "kubelet's logs of pods, such as NAMESPACE_NAME_UID",
                )
        self._known = {uid: name for uid, name in self._known.items() if uid in wanted}
        return self._known
