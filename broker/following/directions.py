"""Which consumers a leader sends to a broker of their rack. Pure.

A consumer that comes back soon was refused there: the broker died, lags, or cannot read the log.
The leader serves it for a while then. Without that a consumer would go to and fro as long as its
broker cannot serve it, and get no record. Kafka's leader sends only to replicas in step; here
followers do not say how far they are.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

CONSUMERS_MAX: Final = 50_000
"""Consumers of partitions that are remembered; those sent longest ago go first."""
RETURN_S: Final = 10.0
"""Sooner than that a consumer comes back only because it was refused: clients choose again after
minutes (Java's metadata.max.age.ms, librdkafka's lease of 5 minutes)."""
KEPT_S: Final = 30.0
"""How long the leader serves it then."""


class Consumer(NamedTuple):
    """A partition's consumer: its connection names it."""

    host: str
    port: int
    topic_id: bytes
    partition: int


class Directions:
    """Where consumers were sent, and which came back."""

    def __init__(self) -> None:
        self._sent: OrderedDict[Consumer, tuple[float, float]] = OrderedDict()
        """When a consumer was sent, and until when it is served here."""

    def __len__(self) -> int:
        return len(self._sent)

    def may_send(self, consumer: Consumer, now_s: float) -> bool:
        """Decide whether a consumer is sent to its rack now, and remember that it was."""
        sent_s, kept_s = self._sent.pop(consumer, (-RETURN_S, 0.0))
        may = now_s >= kept_s and now_s - sent_s >= RETURN_S
        if may:
            sent_s = now_s
        elif now_s >= kept_s:
            kept_s = now_s + KEPT_S
        self._sent[consumer] = (sent_s, kept_s)
        if len(self._sent) > CONSUMERS_MAX:
            self._sent.popitem(last=False)
        return may
