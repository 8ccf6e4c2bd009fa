"""Refusal of pods with requirements that no filter here evaluates.

It asks about the pod alone, before any node is looked at: zonal volumes, required pod affinity,
topology spread and the like may make any node wrong, so none is right.
"""

from schemas.messages.pods import Pod


def refusal(pod: Pod) -> str | None:
    """Why a pod cannot be placed at all, in a sentence that names each such requirement once.

    Returns:
        None for a pod without such requirements, which goes on to the filters.
    """
    if not pod.unsupported:
        return None
    names = sorted(set(pod.unsupported))
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"the pod requires {listed}, which loadstream does not evaluate"
