"""How deep histories go: what stages answered, how often, and what a record cost at most."""

from collections import Counter
from dataclasses import dataclass, field

from streams.stage.records import InputRecord
from streams.stage.statistics import Counts


@dataclass(slots=True)
class Coverage:
    """Counts over histories."""

    records: int = 0
    restarts: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    """What stages came to, by a few words each."""
    worst: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By topic: most CPU seconds that one record took, and its bytes."""

    def count(self, record: InputRecord, counts: Counts) -> None:
        """A record was applied."""
        self.records += 1
        reached = self.reached
        for result, number in counts.results.items():
            reached[f"record {result}"] += number
        for (topic, category), number in counts.refused.items():
            reached[f"refused {topic} {category}"] += number
        for kind in ("decided", "commands", "migrations", "moves"):
            for words, number in getattr(counts, kind).items():
                reached[" ".join((kind, *words))] += number
        for word, number in counts.rounds.items():
            reached[f"rounds {word}"] += number

    def spent(self, record: InputRecord, seconds: float) -> None:
        """A record took this."""
        if seconds > self.worst.get(record.topic, (0.0, 0))[0]:
            self.worst[record.topic] = (seconds, len(record.value or b""))

    def add(self, other: "Coverage") -> None:
        """Take over what another history reached."""
        self.records += other.records
        self.restarts += other.restarts
        self.reached += other.reached
        for topic, (seconds, size) in other.worst.items():
            if seconds > self.worst.get(topic, (0.0, 0))[0]:
                self.worst[topic] = (seconds, size)

    def lines(self) -> list[str]:
        """What there is to print."""
        lines = [f"{self.records} records, {self.restarts} restarts"]
        lines += [f"  {number:>8}  {words}" for words, number in sorted(self.reached.items())]
        lines.append("most CPU that one record took, by topic:")
        lines += [
            f"  {1_000 * seconds:>8.1f} ms  {topic} ({size} bytes)"
            for topic, (seconds, size) in sorted(self.worst.items())
        ]
        return lines
