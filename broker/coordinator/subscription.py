"""The one thing the broker reads inside a member's opaque metadata: the topics it subscribes to.

Kafka's embedded consumer protocol: int16 version, then an array of topic names; every later version
only appends. A member that says something else is tolerated: then the subscription is unknown.
"""

from struct import Struct, error

_INT16 = Struct(">h")
_INT32 = Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of a ConsumerProtocolSubscription, None if the bytes are none.

    Source: ConsumerProtocolSubscription.json; ClassicGroup.computeSubscribedTopics.
    """
    try:
        if _INT16.unpack_from(metadata, 0)[0] < 0:
            return None
        count = _INT32.unpack_from(metadata, 2)[0]
        return _topics(metadata, count)
    except (error, UnicodeDecodeError):
        return None


def _topics(metadata: bytes, count: int) -> frozenset[str] | None:
    if not 0 <= count <= len(metadata) // 2:
        return None
    topics = set()
    at = 6
    for _ in range(count):
        end = at + 2 + _INT16.unpack_from(metadata, at)[0]
        if not at + 2 <= end <= len(metadata):
            return None
        topics.add(metadata[at + 2 : end].decode())
        at = end
    return frozenset(topics)
