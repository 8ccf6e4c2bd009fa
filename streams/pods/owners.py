"""Pods by controller, and which of them are not ready.

Updated as pods come and go, so that limits per workload need not search the cluster. Room for a replacement
pod has no owner.
"""

from collections.abc import Mapping

from schemas.messages.pods import Pod

_NONE: Mapping[str, None] = {}


class Owners:
    """Pods held in a cluster, by the uid of their controller."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, None]] = {}
        self._unready: dict[str, dict[str, None]] = {}
        self._owner_of: dict[str, str] = {}
        """uid of the controller of each pod, by the pod's uid."""
        self.version = 0
        """Grows with every change."""

    def add(self, pod: Pod) -> None:
        """Add a held pod, or update it; its controller may have changed."""
        self.version += 1
        owner = pod.controller
        if owner is None or self._owner_of.get(pod.uid) != owner.uid:
            self.drop(pod.uid)
        if owner is None:
            return
        self._owner_of[pod.uid] = owner.uid
        self._pods.setdefault(owner.uid, {})[pod.uid] = None
        if not pod.ready:
            self._unready.setdefault(owner.uid, {})[pod.uid] = None
        else:
            _drop(self._unready, owner.uid, pod.uid)

    def drop(self, uid: str) -> None:
        self.version += 1
        owner_uid = self._owner_of.pop(uid, None)
        if owner_uid is not None:
            _drop(self._pods, owner_uid, uid)
            _drop(self._unready, owner_uid, uid)

    def pods(self, owner_uid: str) -> Mapping[str, None]:
        """Return the uids of the pods of a controller, in no defined order."""
        return self._pods.get(owner_uid, _NONE)

    def unready(self, owner_uid: str) -> Mapping[str, None]:
        """Return the uids of the pods of a controller that are not ready."""
        return self._unready.get(owner_uid, _NONE)


def _drop(index: dict[str, dict[str, None]], owner_uid: str, uid: str) -> None:
    uids = index.get(owner_uid)
    if uids is not None:
        uids.pop(uid, None)
        if not uids:
            del index[owner_uid]
