"""The bookies that reads ask, in the order in which they are asked; what reads learn goes back in.

One object per client, shared by its readers: a replica that is slow for one ledger is slow for all.
"""

import asyncio
import logging
from random import Random
from typing import Final

from tailrace.core.errors import CoreError
from tailrace.core.ledger.bookie_registry import BookieRegistry
from tailrace.core.ledger.config import ReadConfig
from tailrace.core.ledger.ensembles import Ensembles
from tailrace.core.ledger.read_decisions import Speculation
from tailrace.core.ledger.read_order import ReadHistory, Surroundings, reorder
from tailrace.core.metadata.network_location import DEFAULT_LOCATION, NetworkLocation
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import BookieId

logger = logging.getLogger(__name__)

_ORDERS_MAX: Final = 4096
_ORDER_AGE_S_MAX: Final = 60.0
"""Orders are made anew at least this often: locations may have changed."""


class Replicas:
    """Clients by bookie, orders by write set."""

    def __init__(
        self,
        bookies: BookieRegistry,
        config: ReadConfig | None = None,
        ensembles: Ensembles | None = None,
        rng: Random | None = None,
    ) -> None:
        """`ensembles`: knows where bookies stand, and hears of failures.

        `rng`: chooses among replicas that are equally near; seeded by the system unless given.
        """
        self._bookies = bookies
        self.client = bookies.client
        self.config = config = config or ReadConfig()
        self._ensembles = ensembles
        own = ensembles.own_location if ensembles is not None else None
        locate = ensembles.location if ensembles is not None else _unknown
        draw = (rng or Random()).random
        self._around = Surroundings(own, locate, bookies.standing, draw)
        self._history = ReadHistory(
            config.failure_history_ms / 1000, own.region if own is not None else None
        )
        self._orders: dict[tuple[BookieId, ...], tuple[BookieId, ...]] = {}
        self._seen = (-1, -1)
        self._expires_s = 0.0
        self.speculation = Speculation(
            config.speculative_timeout_ms / 1000,
            config.speculative_timeout_ms_max / 1000,
            config.speculative_multiplier,
        )
        self.long_poll_speculation = Speculation(
            config.long_poll_speculative_timeout_ms / 1000,
            config.long_poll_speculative_timeout_ms_max / 1000,
            config.long_poll_speculative_multiplier,
        )

    def order(self, write_set: tuple[BookieId, ...]) -> tuple[BookieId, ...]:
        """Return the replicas of a write set, the one to ask first first.

        Cost: one look-up while nothing changed. Call `refresh` before, once per operation.
        """
        order = self._orders.get(write_set)
        if order is None:
            if not self.config.reorder:
                return write_set
            now_s = asyncio.get_running_loop().time()
            order = reorder(write_set, self._history, self._around, now_s)
            if len(self._orders) >= _ORDERS_MAX:
                self._orders.clear()
            self._orders[write_set] = order
        return order

    async def learn_places(self) -> None:
        """Learn where bookies stand, if this client knows where it stands itself.

        Errors: none; what cannot be learnt now leaves the orders without it. Cost: nothing while
        the lists of bookies do not change.
        """
        if self._around.own is None or self._ensembles is None:
            return
        try:
            await self._ensembles.refresh()
        except CoreError as error:
            logger.warning("places_unknown error=%s", error)

    def refresh(self, now_s: float) -> None:
        """Forget orders that are out of date."""
        seen = (self._history.version, self._bookies.version)
        if seen != self._seen or now_s >= self._expires_s:
            self._seen = seen
            self._orders.clear()
            self._expires_s = min(self._history.next_change_s(now_s), now_s + _ORDER_AGE_S_MAX)

    def on_failure(self, bookie: BookieId, status: StatusCode) -> None:
        """Take note that a replica failed a read."""
        self._history.on_failure(bookie, asyncio.get_running_loop().time())
        if self._ensembles is not None:
            self._ensembles.report_failure(bookie, status)

    def on_slow(self, bookie: BookieId) -> None:
        """Take note that another replica had to answer in its place."""
        self._history.on_slow(bookie, asyncio.get_running_loop().time())

    def on_latency(self, bookie: BookieId, latency_s: float) -> None:
        """Take note of how long a replica took. Unit: s."""
        region = self._around.locate(bookie).region
        now_s = asyncio.get_running_loop().time()
        self._history.on_latency(bookie, latency_s, now_s, region)


def _unknown(_bookie: BookieId) -> NetworkLocation:
    return DEFAULT_LOCATION
