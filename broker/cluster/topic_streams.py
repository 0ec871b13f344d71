"""The log streams behind a topic's partitions: made and deleted side by side, idempotently."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from tailrace.broker.cluster.names import stream_name
from tailrace.core.errors import LogExists, LogNotFound, OwnershipAcquireFailed
from tailrace.core.log.log import CheckMay
from tailrace.core.runtime.tasks import together

logger = logging.getLogger(__name__)

STREAMS_AT_ONCE: Final = 64
"""Streams that are created or deleted side by side, so that they share fsyncs."""

OWNER_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Between attempts to delete a stream while the broker that owns it hears of that and closes it."""


class TopicStreams(Protocol):
    """Where the streams of partitions are made; `core.log`'s namespace is one."""

    def check_settings(self, overrides: Mapping[str, str]) -> None:
        """Refuse settings that no stream can have. Errors: CoreError."""

    async def first_log(self, names: Sequence[str]) -> str | None:
        """Return the first of these names that a stream has, None: none. Errors: CoreError."""

    async def create_log(self, name: str, overrides: Mapping[str, str]) -> object:
        """Create a stream that is opened with these settings. Errors: LogExists."""

    async def delete_log(self, name: str, check_may: CheckMay, /) -> object:
        """Delete a stream, if `check_may` lets it, which is asked while nobody else can delete it.

        Errors: LogNotFound, OwnershipAcquireFailed.
        """


async def create_streams(
    streams: TopicStreams, topic: str, partitions: range, settings: Mapping[str, str]
) -> None:
    """Make the streams of these partitions; one that is there is taken as it is.

    Errors: CoreError, with some of them made.
    """
    await _for_each(topic, partitions, partial(_create, streams, settings))


async def delete_streams(
    streams: TopicStreams, topic: str, partitions: range, check_may: CheckMay
) -> None:
    """Delete the streams of these partitions, those that are there.

    `check_may`: raises LogNotFound once the streams of that name are another topic's.
    Errors: OwnershipAcquireFailed when another broker keeps one; CoreError.
    """
    await _for_each(topic, partitions, partial(_delete, streams, check_may))


async def _for_each(
    topic: str, partitions: range, act: Callable[[str], Coroutine[Any, Any, None]]
) -> None:
    for chunk in _chunks(partitions, STREAMS_AT_ONCE):
        await together([act(stream_name(topic, partition)) for partition in chunk])


async def _create(streams: TopicStreams, settings: Mapping[str, str], stream: str) -> None:
    try:
        await streams.create_log(stream, settings)
    except LogExists:
        logger.info("stream was there already stream=%s", stream)


async def _delete(streams: TopicStreams, check_may: CheckMay, stream: str) -> None:
    for pause_s in (*OWNER_PAUSES_S, None):
        try:
            await streams.delete_log(stream, check_may)
        except LogNotFound:
            logger.info("stream was gone already stream=%s", stream)
        except OwnershipAcquireFailed:
            if pause_s is None:
                raise
            await asyncio.sleep(pause_s)
            continue
        return


def _chunks(partitions: range, size: int) -> Iterator[range]:
    for start in range(0, len(partitions), size):
        yield partitions[start : start + size]
