"""Which records of a topic a reader wants: those of a kind, about a cluster or about a pod."""

from dataclasses import dataclass

from connectors.kafka.tail import Entry
from schemas.topics.catalog import Topic

_KEYS_WITH_CLUSTER = ("cluster", "cluster/node", "source topic")


@dataclass(frozen=True, slots=True)
class Selection:
    """What is wanted; without any it is everything."""

    cluster: str | None = None
    pod: tuple[str, str] | None = None
    """Namespace and name."""
    kind: str | None = None
    """The field `kind` of messages."""

    @classmethod
    def of(
        cls,
        topic: Topic,
        cluster: str | None,
        pod: tuple[str, str] | None,
        kind: str | None = None,
    ) -> "Selection":
        """Raises ValueError with a sentence if records of the topic are about no such thing."""
        if cluster is not None and topic.key not in _KEYS_WITH_CLUSTER:
            raise ValueError(
                f"--cluster: records of {topic.name} are about no single cluster (their key is the "
                f"{topic.key})"
            )
        if pod is not None and not any(
            "pod" in each.model_fields or "pods" in each.model_fields for each in topic.classes
        ):
            raise ValueError(f"--pod: records of {topic.name} are about no pod")
        fields = (each.model_fields.get("kind") for each in topic.classes)
        kinds = [field.default for field in fields if field is not None]
        if kind is not None and kind not in kinds:
            allowed = f"allowed are {', '.join(kinds)}" if kinds else "its records have no kind"
            raise ValueError(f"--kind: found {kind!r} for {topic.name}; {allowed}")
        return cls(cluster, pod, kind)

    @property
    def chooses(self) -> bool:
        """Whether anything is left out."""
        return self != Selection()

    def takes(self, entry: Entry) -> bool:
        """Whether a record is wanted."""
        if self.cluster is not None and entry.cluster != self.cluster:
            return False
        if self.kind is not None and getattr(entry.message, "kind", None) != self.kind:
            return False
        if self.pod is None:
            return True
        one = getattr(entry.message, "pod", None)
        pods = (*getattr(entry.message, "pods", ()), *([] if one is None else [one]))
        return any((pod.namespace, pod.name) == self.pod for pod in pods)
