"""Whose pod a pod is: replacements are other pods of the same owner."""

from schemas.messages.pods import Pod


def owner_key(pod: Pod) -> str:
    """uid of the pod's controller, else namespace/name of the pod.

    A controller without a uid is identified by namespace, kind and name.
    """
    for owner in pod.owners:
        if owner.controller:
            return owner.uid or f"{pod.namespace}/{owner.kind}/{owner.name}"
    return f"{pod.namespace}/{pod.name}"
