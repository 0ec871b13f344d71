"""A fetch of a session as the full fetch that it stands for.

In a session a client names only what changes, so a fault for a partition would miss it. A faulty
answer also must not tell the session that records were sent. So such a fetch is answered without
the session, which is given up: KIP-227 lets a broker do that, the client begins another.
"""

import dataclasses

from tailrace.broker.context import RequestContext
from tailrace.broker.fetching.session_cache import NO_SESSION, is_full
from tailrace.broker.fetching.sessions import FINAL_EPOCH, PartitionKey
from tailrace.protocol.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic


def without_session(ctx: RequestContext, request: FetchRequest) -> FetchRequest:
    """Return a fetch that names all its partitions, waits for nothing and wants no session."""
    asked = {_key(topic, each): each for topic in request.topics for each in topic.partitions}
    session = None
    if not is_full(request.session_epoch):
        session = ctx.broker.fetch_sessions.get(request.session_id)
    if session is not None:
        forgotten = {
            (topic.topic_id if session.uses_topic_ids else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        }
        kept = {key: cached.asked for key, cached in session.partitions.items()}
        asked = {key: each for key, each in (kept | asked).items() if key not in forgotten}
    return dataclasses.replace(
        request,
        topics=[_topic(key, each) for key, each in asked.items()],
        forgotten_topics_data=(),
        session_id=NO_SESSION,
        session_epoch=FINAL_EPOCH,
        max_wait_ms=0,
    )


def give_up_session(ctx: RequestContext, request: FetchRequest) -> None:
    """Forget the session of a fetch, if it has one."""
    if request.session_id != NO_SESSION:
        ctx.broker.fetch_sessions.remove(request.session_id)


def _key(topic: FetchTopic, asked: FetchPartition) -> PartitionKey:
    return (topic.topic or topic.topic_id, asked.partition)


def _topic(key: PartitionKey, asked: FetchPartition) -> FetchTopic:
    if isinstance(key[0], bytes):
        return FetchTopic(topic_id=key[0], partitions=[asked])
    return FetchTopic(topic=key[0], partitions=[asked])
