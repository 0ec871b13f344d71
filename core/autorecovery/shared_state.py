"""What all processes of auto-recovery in a cluster share beside the marks.

Whether it is switched off, how long a lost bookie may take to come back, and when the periodic
checks ended last. Operators write the first two, with BookKeeper's shell or ours.
Source: BookKeeper ZkLedgerUnderreplicationManager.
"""

import asyncio
from typing import Final, NamedTuple

from tailrace.core.errors import CorruptData, MetadataConflict, NodeExists, NoNode
from tailrace.core.metadata.cluster import check_cluster
from tailrace.core.metadata.layout import CHECK_ALL_LEDGERS_NAME, UnderreplicationPaths
from tailrace.core.metadata.store import MetadataStore, Watch, WatchEvent
from tailrace.core.metadata.underreplication import (
    CHECK_ALL_LEDGERS,
    LAYOUT_BYTES,
    CheckTime,
    check_underreplication_layout,
)
from tailrace.core.runtime.decimal_text import decimal

_ATTEMPTS: Final = 8
"""Lost races after which a change is given up."""

DELAY_S_MAX: Final = 2**31 - 1
"""Java reads it as an int."""


class PeriodicCheck(NamedTuple):
    """A check that an auditor repeats, whose times the next one goes on from."""

    node: str
    """Its node's name below `underreplication`."""
    time: CheckTime


ALL_LEDGERS: Final = PeriodicCheck(CHECK_ALL_LEDGERS_NAME, CHECK_ALL_LEDGERS)


class RecoveryDelay(NamedTuple):
    """How long a lost bookie may take to come back."""

    delay_s: int
    version: int
    """Rises whenever somebody sets it, also to the same value."""


class SharedState:
    """The nodes of one cluster. Errors: Unavailable of each method, as the store's."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        self._store = store
        self._root = root
        self._paths = UnderreplicationPaths(root)

    async def prepare(self) -> None:
        """Make the nodes that others expect; do nothing to those that are there.

        Errors: CorruptData names a LAYOUT of another kind, the cluster's or the marks': nothing may
        be read or written then. NoNode: there is no cluster.
        """
        await check_cluster(self._store, self._root)
        paths = self._paths
        try:
            await self._store.create(paths.layout, LAYOUT_BYTES, parents=True)
        except NodeExists:
            check_underreplication_layout((await self._store.get(paths.layout)).data)
        for path in (paths.ledgers, paths.locks):
            if await self._store.exists(path) is None:
                await self._make(path, b"")

    # -- on and off ---

    async def is_enabled(self, watch: Watch | None = None) -> bool:
        """Tell whether ledgers are audited and copied. The watch fires when that may change."""
        return await self._store.exists(self._paths.disable, watch) is None

    async def enable(self) -> None:
        """Go on with auditing and copying everywhere. Idempotent."""
        try:
            await self._store.delete(self._paths.disable)
        except NoNode:
            return

    async def disable(self) -> None:
        """Stop auditing and copying everywhere, until `enable`. Idempotent.

        A copy on its way is finished.
        """
        await self._make(self._paths.disable, b"")

    async def wait_until_enabled(self) -> None:
        """Return at once, or when somebody enables."""
        while not await self.is_enabled():
            changed = asyncio.Event()

            def fired(_path: str, _event: WatchEvent, changed: asyncio.Event = changed) -> None:
                changed.set()

            if await self.is_enabled(fired):
                return
            await changed.wait()

    # -- the delay ---

    async def recovery_delay(self, watch: Watch | None = None) -> RecoveryDelay | None:
        """Return the delay as it was set last; None: by nobody.

        The watch fires when somebody sets it. Errors: CorruptData names the node.
        """
        path = self._paths.lost_bookie_recovery_delay
        node = await self._store.exists(path, watch)
        if node is None:
            return None
        text = node.data.decode(errors="replace").strip()
        delay_s = decimal(text, DELAY_S_MAX)
        if delay_s is None:
            raise CorruptData(
                f"{path} is {text[:40]!r} and not a number of seconds; set it again, for example "
                "with BookKeeper's shell: lostbookierecoverydelay -set 0"
            )
        return RecoveryDelay(delay_s, node.version)

    async def lost_bookie_recovery_delay_s(self) -> int | None:
        """Return the delay alone. Errors: CorruptData names the node."""
        found = await self.recovery_delay()
        return found.delay_s if found is not None else None

    async def set_lost_bookie_recovery_delay_s(self, delay_s: int) -> None:
        """Set the delay; to the value that it has: make the auditor audit now.

        Errors: ValueError, MetadataConflict.
        """
        if not 0 <= delay_s <= DELAY_S_MAX:
            raise ValueError(f"a delay of {delay_s} s: expected 0 to {DELAY_S_MAX}")
        await self._put(self._paths.lost_bookie_recovery_delay, str(delay_s).encode())

    async def begin_lost_bookie_recovery_delay_s(self, delay_s: int) -> None:
        """Set the delay if nobody did before."""
        await self._make(self._paths.lost_bookie_recovery_delay, str(delay_s).encode())

    # -- times of checks ---

    async def last_run_ms(self, check: PeriodicCheck) -> int | None:
        """Return when a check ended last; None: never. Errors: CorruptData names the node.

        Unit: ms since the epoch, by the clock of the auditor of then.
        """
        path = f"{self._paths.base}/{check.node}"
        node = await self._store.exists(path)
        try:
            return check.time.decode(node.data) if node is not None else None
        except CorruptData as error:
            raise CorruptData(f"{path}: {error}") from None

    async def set_last_run_ms(self, check: PeriodicCheck, at_ms: int) -> None:
        """Note that a check ended. Errors: MetadataConflict."""
        await self._put(f"{self._paths.base}/{check.node}", check.time.encode(at_ms))

    async def _make(self, path: str, data: bytes) -> None:
        try:
            await self._store.create(path, data, parents=True)
        except NodeExists:
            return  # somebody else was faster, or was before

    async def _put(self, path: str, data: bytes) -> None:
        for _ in range(_ATTEMPTS):
            try:
                await self._store.set(path, data)
            except NoNode:
                try:
                    await self._store.create(path, data, parents=True)
                except NodeExists:
                    continue
            return
        raise MetadataConflict(f"{path} comes and goes: others make and delete it all the time")
