"""Streams that a topic's partitions cannot have, because they are others'.

A stream that was there before its topic is not a partition: thin clients or an embedded log wrote
it, and no broker could read it. A new topic's node claims the name (`claiming`), as one that is to
grow does; then the streams are looked for. If one is there the topic is given up, or stays as it
is. To look before the node says so would miss a stream that is made in between. From the node on,
proxies make, claim and delete no such stream (`processes/topic_streams.py`): one that slips in has
no record, and is taken as it is.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from tailrace.broker.cluster.names import stream_name
from tailrace.broker.cluster.topic_codec import (
    StoredTopic,
    decode_assignments,
    encode_assignments,
)
from tailrace.broker.cluster.topic_nodes import TopicNodes
from tailrace.broker.cluster.topic_streams import TopicStreams
from tailrace.broker.errors import KafkaError
from tailrace.core.errors import BadVersion, NoNode
from tailrace.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class TopicClaims:
    """Claims the streams of topics. The caller has the topic's lock, and has just read its node."""

    def __init__(self, nodes: TopicNodes, streams: TopicStreams) -> None:
        self._nodes = nodes
        self._streams = streams

    async def claim(
        self, name: str, stored: StoredTopic, take: Callable[[str], Awaitable[None]]
    ) -> str | None:
        """Let a claimed topic go on if its streams are to be made; else return which is another's.

        Then a new topic is gone, and one that was to grow is as before.
        `take`: read its node again. Errors: BadVersion or NoNode when another broker gave the topic
        up; CoreError. Cost: a sync, a round trip for each 128 streams, a write.
        """
        names = [stream_name(name, at) for at in range(stored.ready, stored.partitions)]
        taken = await self._streams.first_log(names)
        if taken is not None and await self._nodes.current(name) is None:
            taken = None  # another broker has gone on since: the stream may be its work
        try:
            await self._settle(name, stored, taken)
        except (BadVersion, NoNode):
            await take(name)  # another broker that was asked for the name has gone on?
            found = self._nodes.known(name)
            if found is None or (found.topic_id, found.partitions) != (
                stored.topic_id,
                stored.partitions,
            ):
                raise
            return None
        return taken

    async def _settle(self, name: str, stored: StoredTopic, taken: str | None) -> None:
        if taken is None:
            await self._nodes.replace(name, state="active")
            return
        logger.warning("topic not made or grown topic=%s stream=%s", name, taken)
        if stored.ready:
            await self._nodes.replace(name, **_ungrown(stored))
        else:
            await self._nodes.delete(name)


def _ungrown(stored: StoredTopic) -> dict[str, Any]:
    """Return what a node says again of a topic that does not grow."""
    assignments = decode_assignments(stored)
    kept = {at: brokers for at, brokers in assignments.items() if at < stored.ready}
    return {
        "state": "active",
        "partitions": stored.ready,
        "assignments": encode_assignments(kept),
    }


def collision(name: str, stream: str) -> KafkaError:
    """Return why there can be no topic of this name.

    Its code is the one that Kafka has for a topic that collides with another: producers that make
    their topic by writing fail at once. TOPIC_ALREADY_EXISTS would pass for success.
    """
    message = f"Topic '{name}' collides with {_words(stream)}"
    return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def no_growth(name: str, stream: str) -> KafkaError:
    """Return why a topic cannot have so many partitions."""
    message = f"Topic '{name}' cannot grow over {_words(stream)}"
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _words(stream: str) -> str:
    return f"the log stream {stream!r}, which is not a partition: delete it first"
