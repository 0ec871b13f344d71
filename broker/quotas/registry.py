"""The cluster's quotas in the metadata store: read, watched, altered.

What one broker alters the others hear of by a watch on the one node; after a lost session it is
read again. Alterations of two brokers at a time go one after the other by the node's version.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from tailrace.broker.errors import KafkaError
from tailrace.broker.quotas.client_quotas import ClientQuotas
from tailrace.broker.quotas.codec import decode_quotas, encode_quotas
from tailrace.broker.quotas.entity import QuotaEntity
from tailrace.broker.quotas.table import Alteration, Quotas, altered, check_alteration
from tailrace.core.errors import BadVersion, CorruptData, NodeExists, NoNode
from tailrace.core.metadata.store import MetadataStore, WatchEvent
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.loop_turns import LoopTurns, Pace
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

PAUSE_S: Final = 1.0
"""Between attempts while the store does not answer, at most."""
CHECK_UNITS: Final = 2
"""What it takes to check one alteration."""
ALTERATIONS_MAX: Final = 10_000
"""Entities that one request may alter: as many records as Kafka's controller writes at once."""
ATTEMPTS: Final = 10
"""How often an alteration is tried that others overtake."""


class QuotaRegistry:
    """The quotas as this broker knows them. All calls come from the loop."""

    def __init__(self, store: MetadataStore, path: str, clients: ClientQuotas) -> None:
        """`path`: their node. `clients`: where they are enforced."""
        self.clients = clients
        self._store = store
        self._path = path
        self._quotas: Quotas = {}
        self._version = -1  # of the node that `_quotas` is; -1: there is none
        self._tasks = Tasks("quotas")
        self._forever = Forever("quotas.follow", pause_s_max=PAUSE_S)
        self._changed = asyncio.Event()
        self._lock = asyncio.Lock()

    @property
    def quotas(self) -> Quotas:
        """All quotas; another broker's changes of this moment may be missing, as in Kafka."""
        return self._quotas

    async def start(self, metrics: Metrics | None = None) -> None:
        """Read the quotas, enforce them and begin to follow them. Errors: CoreError."""
        if metrics is not None:
            metrics.register("broker_quota", self.clients.metrics)
        await self._read(watched=True)
        self._tasks.start(self._forever.run(self._follow), "follow")

    async def close(self) -> None:
        """Follow no more. Idempotent."""
        await self._tasks.close()

    async def alter(
        self,
        alterations: Sequence[Alteration],
        pace: Pace | None = None,
        *,
        validate_only: bool = False,
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Change quotas, all that are right together; return why others are not.

        `pace`: of the request, if it may be long.

        Errors: CoreError: nothing is known to be changed; the same call again does no harm.
        """
        outcomes: dict[QuotaEntity, KafkaError | None] = {}
        async for alteration in (pace or Pace(LoopTurns())).each(alterations, CHECK_UNITS):
            check_alteration(alteration, outcomes)
        if len(alterations) > ALTERATIONS_MAX:
            message = f"The request alters more than {ALTERATIONS_MAX} entities."
            return dict.fromkeys(outcomes, KafkaError(ErrorCode.POLICY_VIOLATION, message))
        valid = [each for each in alterations if outcomes[each.entity] is None]
        if valid and not validate_only:
            async with self._lock:
                await self._write(valid)
        return outcomes

    async def _write(self, alterations: Sequence[Alteration]) -> None:
        for _ in range(ATTEMPTS):
            await self._read()
            made = altered(self._quotas, alterations)
            if made == self._quotas:
                return
            try:
                version = await self._put(encode_quotas(made))
            except (BadVersion, NodeExists, NoNode):
                continue
            self._take(made, version)
            logger.info("quotas_altered entities=%d", len(alterations))
            return
        raise BadVersion(f"{self._path}: {ATTEMPTS} times others altered the quotas first")

    async def _put(self, data: bytes) -> int:
        if self._version >= 0:
            return await self._store.set(self._path, data, self._version)
        await self._store.create(self._path, data, parents=True)
        return 0

    async def _read(self, *, watched: bool = False) -> None:
        """Take note of the node as it is. Errors: CorruptData leaves what was known."""
        watch = self._on_event if watched else None
        try:
            node = await self._store.get(self._path, watch)
        except NoNode:
            if not watched or await self._store.exists(self._path, watch) is None:
                self._take({}, -1)
                return
            node = await self._store.get(self._path)
        self._take(decode_quotas(node.data), node.version)

    def _take(self, quotas: Quotas, version: int) -> None:
        self._version = version
        if quotas != self._quotas:
            self.clients.apply(quotas)
            self._quotas = quotas  # once they are in force: else the next reading finds no news

    def _on_event(self, _path: str, _event: WatchEvent) -> None:
        self._changed.set()

    async def _follow(self) -> None:
        await self._changed.wait()
        self._changed.clear()
        try:
            async with self._lock:
                await self._read(watched=True)
        except CorruptData as error:  # read again when somebody changes it
            logger.error("quotas_unreadable error=%s", error)  # noqa: TRY400 - it says where
        except BaseException:
            self._changed.set()
            raise
