"""Annotations by which a pod changes its own estimate, where the policy lets it.

They are read as Go reads them; what cannot be read counts as not given. Source: docs/upstream.md
A4.1, A6.5.
"""

import re

from schemas.base.message import INT64_MAX
from schemas.messages.pods import Pod
from streams.usage.go_json import as_integers, decode

SCALING_FACTORS_ANNOTATION = "scheduling.koordinator.sh/load-estimated-scaling-factors"
AFTER_SCHEDULED_ANNOTATION = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
AFTER_INITIALIZED_ANNOTATION = "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"

_GO_INTEGER = re.compile(r"[+-]?[0-9]+")


def own_factors(pod: Pod) -> dict[str, int]:
    """Scaling factors that a pod names, in percent, by resource."""
    text = pod.annotations.get(SCALING_FACTORS_ANNOTATION)
    try:
        return {} if text is None else as_integers(decode(text))
    except (ValueError, RecursionError):
        return {}


def own_seconds(pod: Pod, annotation: str, default: int) -> int:
    """How long a pod says it is estimated although it is measured, in seconds."""
    text = pod.annotations.get(annotation)
    if text is None or not _GO_INTEGER.fullmatch(text) or len(text) > 20:
        return default
    seconds = int(text)
    return seconds if 0 <= seconds <= INT64_MAX else default
