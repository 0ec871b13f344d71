"""Regions whose proxies take no new stream: a node in the namespace that proxies follow.

    <namespace>/.stopped_regions       {"region_stop_accept_new_stream": ["eu"]}

An operator changes it while all is running. A proxy of a stopped region serves the streams that it
owns, and answers REGION_UNAVAILABLE for others, so that clients go to another region. Without the
node no region is stopped. The name begins with a dot, so a namespace lists no log for it.
Source: DistributedLog's feature `region_stop_accept_new_stream`, which each process reads from a
file of its own.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, TypeAlias

import msgspec

from tailrace.core.errors import BadVersion, CorruptData, MetadataConflict, NodeExists, NoNode
from tailrace.core.metadata.store import MetadataStore, Node, WatchEvent
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.stored_json import NOT_JSON
from tailrace.core.runtime.tasks import Tasks
from tailrace.proxy.routing.regions import REGIONS_MAX

logger = logging.getLogger(__name__)

STOPPED_REGIONS: Final = ".stopped_regions"

RETRY_S_MAX: Final = 5.0
"""Between attempts to read the node again, at most."""

_RACES_MAX: Final = 8
"""How often another process may change the node while it is changed here."""

RegionName: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]

StopListener: TypeAlias = Callable[[frozenset[str]], None]
"""Called on the loop with the regions that are stopped: once at first, then after each change."""


class _Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stopped: Annotated[frozenset[RegionName], msgspec.Meta(max_length=REGIONS_MAX)] = msgspec.field(
        default=frozenset(), name="region_stop_accept_new_stream"
    )


_DECODER = msgspec.json.Decoder(_Node)


def stopped_path(namespace_root: str) -> str:
    """Return where a namespace has the node."""
    return f"{namespace_root}/{STOPPED_REGIONS}"


def decode_stopped(data: bytes) -> frozenset[str]:
    """Read the node; an empty one stops nothing. Errors: CorruptData."""
    try:
        return _DECODER.decode(data).stopped if data.strip() else frozenset()
    except NOT_JSON as error:
        raise CorruptData(f"the stopped regions do not decode: {error}") from error


def encode_stopped(regions: frozenset[str]) -> bytes:
    """Return the bytes of the node."""
    return msgspec.json.encode({"region_stop_accept_new_stream": sorted(regions)})


async def read_stopped(store: MetadataStore, namespace_root: str) -> frozenset[str]:
    """Return the regions that are stopped. Errors: Unavailable, CorruptData."""
    stopped, _ = await _read(store, stopped_path(namespace_root))
    return stopped


async def set_stopped(
    store: MetadataStore, namespace_root: str, region: str, *, stopped: bool
) -> bool:
    """Stop a region, or start it again; return whether that changed anything.

    Errors: Unavailable: it is changed or not; CorruptData; MetadataConflict for a node that others
    change all the time; ValueError for more regions than `REGIONS_MAX`. Cost: two round trips.
    """
    path = stopped_path(namespace_root)
    for _ in range(_RACES_MAX):
        before, version = await _read(store, path)
        after = before | {region} if stopped else before - {region}
        if after == before:
            return False
        if len(after) > REGIONS_MAX:
            raise ValueError(f"{len(after)} stopped regions, at most {REGIONS_MAX}")
        try:
            if version is None:
                await store.create(path, encode_stopped(after), parents=True)
            else:
                await store.set(path, encode_stopped(after), version)
        except (NodeExists, NoNode, BadVersion):
            continue  # another process changed it: its change stays
        return True
    raise MetadataConflict(f"{path} changes faster than it can be read")


async def _read(store: MetadataStore, path: str) -> tuple[frozenset[str], int | None]:
    node = await store.exists(path)
    return (frozenset(), None) if node is None else (decode_stopped(node.data), node.version)


class StopWatch:
    """Follows the node of a namespace from `start` to `close`. All calls come from the loop.

    A node that does not decode leaves the former regions stopped, and the log says so. While the
    store does not answer, the last known regions count, and the node is read again with growing
    pauses. Cost: a round trip for each change.
    """

    def __init__(self, store: MetadataStore, namespace_root: str, listener: StopListener) -> None:
        self._store = store
        self._path = stopped_path(namespace_root)
        self._listener = listener
        self._heard: frozenset[str] | None = None
        self._tasks = Tasks("stopped_regions")

    async def start(self) -> None:
        """Hand on the regions of now, and begin to follow, in the background.

        Errors: Unavailable. Cancel: nothing is followed.
        """
        self._hear(await self._store.exists(self._path))
        self._tasks.start(self._run(), "watch")

    async def close(self) -> None:
        """Follow no more. Idempotent."""
        await self._tasks.close()

    async def _run(self) -> None:
        watch = Forever("stopped_regions.watch", about=self._path, pause_s_max=RETRY_S_MAX)
        await watch.run(partial(self._follow, watch))

    async def _follow(self, watch: Forever) -> None:
        """Hand on the regions that are stopped, and wait until they may have changed."""
        changed = asyncio.Event()

        def fired(_path: str, _event: WatchEvent) -> None:
            changed.set()

        self._hear(await self._store.exists(self._path, fired))
        watch.is_well()
        await changed.wait()

    def _hear(self, node: Node | None) -> None:
        try:
            stopped = frozenset() if node is None else decode_stopped(node.data)
        except CorruptData as error:
            logger.warning("stopped_regions_unreadable path=%s error=%s", self._path, error)
            stopped = self._heard or frozenset()
        if stopped != self._heard:
            logger.info("stopped_regions path=%s regions=%s", self._path, ",".join(sorted(stopped)))
            self._listener(stopped)
            self._heard = stopped
