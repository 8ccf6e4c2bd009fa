"""Whether a worker has applied a record: how far its group has committed, and what it has refused.

A worker commits an offset when what the record came to is durable in the journal. So a record below the
committed offset was applied, unless `dead-letters` holds it.
"""

from connectors.kafka.admin import find_topics
from connectors.kafka.arrivals import Arrivals
from connectors.kafka.backwards import Looked, Past
from connectors.kafka.client import BrokerUnavailable, Connection, Failures, client_options
from schemas.codec import decode
from schemas.connection import APP_ID
from schemas.deadletters import DeadLetter

#: The consumer groups of workers with both stages, and of those of the cluster stage alone.
GROUPS = (APP_ID, f"{APP_ID}-cluster")
#: Records of `dead-letters` that are looked at for refusals, newest first.
LETTERS_MAX = 5_000

APPLIED = "applied"
WAITING = "not applied yet"
REFUSED = "refused"


class Applied:
    """How far the records of a topic have been applied; `look` again for news."""

    def __init__(self, connection: Connection, topic: str) -> None:
        """Look. Raises BrokerUnavailable."""
        self._connection = connection
        self._topic = topic
        self._letters = Arrivals(connection, "dead-letters", topic)
        self._refused: dict[tuple[int, int], str] = {}
        # Letters have their source topic as key, so they are where a cluster of that name would be.
        past = Past(connection, "dead-letters", topic, LETTERS_MAX)
        for letter in past.newest(Looked(), any_cluster=True):
            self._note(letter)
        self._next = self._committed()

    def look(self) -> None:
        """Look again. Raises BrokerUnavailable."""
        # Positions first: what is refused is buried before its offset is committed.
        self._next = self._committed()
        for record in self._letters.take():
            self._note(decode("dead-letters", record.value))

    def state(self, partition: int, offset: int) -> str:
        """Applied, not applied yet, or refused and why."""
        if (partition, offset) in self._refused:
            return f"{REFUSED}: {self._refused[partition, offset]}"
        return APPLIED if offset < self._next.get(partition, 0) else WAITING

    def _note(self, letter: object) -> None:
        if isinstance(letter, DeadLetter) and letter.topic == self._topic:
            self._refused[letter.partition, letter.offset] = letter.reason

    def _committed(self) -> dict[int, int]:
        """The offset that follows what was committed last, by partition."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        connection, failures = self._connection, Failures()
        timeout_s = connection.settings.connect_timeout_s
        count = find_topics(connection, [self._topic])[self._topic].partitions
        wanted = [TopicPartition(self._topic, number) for number in range(count)]
        following: dict[int, int] = {}
        for group in GROUPS:
            options = {"group.id": group, "enable.auto.commit": False}
            consumer = Consumer(client_options(connection.settings, failures, **options))
            try:
                answers = consumer.committed(wanted, timeout=timeout_s)
            except KafkaException as error:
                raise BrokerUnavailable(
                    f"{self._topic}: the offsets of group {group} were not told within "
                    f"{timeout_s:.0f} s: {error.args[0].str()}"
                ) from None
            finally:
                consumer.close()
            for each in answers:
                # A negative offset stands for "nothing was committed".
                following[each.partition] = max(following.get(each.partition, 0), each.offset)
        return following
