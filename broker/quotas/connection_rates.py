"""How fast connections may come: from all addresses together, and from each. Pure.

Source: kafka.network.ConnectionQuotas.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tailrace.broker.quotas.entity import normal_address
from tailrace.broker.quotas.rate import SampledRate, Windows

ADDRESSES_MAX: Final = 10_000
"""Addresses whose connections are counted; of more, those that were silent longest go."""


class ConnectionRates:
    """Counts connections as they come."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._all = SampledRate(windows)
        self._by_address: dict[str, SampledRate] = {}  # who connected last is last
        self._bounds: Mapping[str | None, int] = MappingProxyType({})

    def apply(self, bounds: Mapping[str | None, int]) -> None:
        """Use other bounds of addresses from now on; None is for those without their own."""
        self._bounds = bounds
        self._by_address = {
            address: rate
            for address, rate in self._by_address.items()
            if self._bound_of(address) is not None
        }

    def delay_ms(self, bound: int, now_ms: int) -> int:
        """Count a connection; return how long it has to wait, one window at most.

        `bound`: connections per second from all addresses.
        """
        self._all.record(1, now_ms)
        return min(self._all.wait_ms(bound, now_ms), self._windows.length_ms)

    def refusal_ms(self, host: str, now_ms: int) -> int:
        """Count a connection of an address; return after how long to close it, 0 to take it.

        One that is refused does not count, neither here nor for all addresses.
        """
        address = normal_address(host) or host
        bound = self._bound_of(address)
        if bound is None:
            return 0
        rate = self._rate_of(address)
        rate.record(1, now_ms)
        wait_ms = min(rate.wait_ms(bound, now_ms), self._windows.length_ms)
        if wait_ms:
            rate.record(-1, now_ms)
            self._all.record(-1, now_ms)
        return wait_ms

    def _bound_of(self, address: str) -> int | None:
        bound = self._bounds.get(address)
        return self._bounds.get(None) if bound is None else bound

    def _rate_of(self, address: str) -> SampledRate:
        rate = self._by_address.pop(address, None)
        if rate is None:
            if len(self._by_address) >= ADDRESSES_MAX:
                del self._by_address[next(iter(self._by_address))]
            rate = SampledRate(self._windows)
        self._by_address[address] = rate
        return rate
