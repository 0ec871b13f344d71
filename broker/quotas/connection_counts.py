"""How many connections there are: all together, and of each address. Pure.

Source: Kafka's max.connections, max.connections.per.ip and its overrides.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from tailrace.broker.quotas.entity import normal_address
from tailrace.core.runtime.config import ConfigError
from tailrace.core.runtime.decimal_text import INT32_MAX, decimal


def numbers_of(overrides: Iterable[str]) -> dict[str, int]:
    """Read `address:number` pairs. Errors: ConfigError."""
    numbers = {}
    for text in overrides:
        host, _, number = text.rpartition(":")
        address = normal_address(host.strip("[]"))
        most = decimal(number, INT32_MAX)
        if address is None or most is None:
            raise ConfigError(f"{text!r} is no address:number")
        numbers[address] = most
    return numbers


class ConnectionCounts:
    """Counts connections in and out."""

    def __init__(self, most: int, most_per_address: int, overrides: Mapping[str, int]) -> None:
        self.total = 0
        self.use_limits(most, most_per_address, overrides)
        self._by_host: Counter[str] = Counter()

    def use_limits(self, most: int, most_per_address: int, overrides: Mapping[str, int]) -> None:
        """Let in by other numbers from now on; who is there stays."""
        self._most = most
        self._most_per_address = most_per_address
        self._overrides = overrides

    def enter(self, host: str) -> bool:
        """Count a connection in, in any case; return whether it may stay."""
        self.total += 1
        self._by_host[host] += 1
        return self.total <= self._most and self._by_host[host] <= self._most_of(host)

    def leave(self, host: str) -> None:
        """Count a connection out."""
        self.total -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def _most_of(self, host: str) -> int:
        if not self._overrides:
            return self._most_per_address
        return self._overrides.get(normal_address(host) or host, self._most_per_address)
