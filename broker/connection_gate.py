"""Who may connect, and when: how many connections there are, and how fast new ones come.

A connection above a number is closed at once. One above the rate of its address is closed after a
while, so that a client which connects again at once does not come faster. One above the broker's
rate is taken, but not read before its turn: one after the other, as Kafka's acceptor does.
Source: kafka.network.ConnectionQuotas, Acceptor.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tailrace.broker.broker import BrokerMetrics
from tailrace.broker.config import NetworkConfig
from tailrace.broker.quotas.client_quotas import ClientQuotas
from tailrace.broker.quotas.connection_counts import ConnectionCounts, numbers_of
from tailrace.core.runtime.listeners import tell

if TYPE_CHECKING:
    from tailrace.broker.connection import KafkaConnection


class ConnectionGate:
    """Lets connections in. All calls come from the loop."""

    def __init__(self, config: NetworkConfig, quotas: ClientQuotas, metrics: BrokerMetrics) -> None:
        self._counts = ConnectionCounts(
            config.connections_max,
            config.connections_per_ip_max,
            numbers_of(config.connections_per_ip_overrides),
        )
        self._rate_max = config.connection_rate_max
        self._line_max = config.backlog
        self._quotas = quotas
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._line: deque[KafkaConnection] = deque()
        """Those that wait for their turn; a timer runs for the first."""
        self._leaving: dict[KafkaConnection, asyncio.TimerHandle] = {}

    def use(self, config: NetworkConfig) -> None:
        """Follow settings that were changed: how many connections may be there, and come."""
        self._rate_max = config.connection_rate_max
        self._counts.use_limits(
            config.connections_max,
            config.connections_per_ip_max,
            numbers_of(config.connections_per_ip_overrides),
        )

    def enter(self, connection: "KafkaConnection") -> bool:
        """Count a connection in; return whether it may stay: if not, close it."""
        metrics = self._metrics
        may_stay = self._counts.enter(connection.info.host)
        metrics.connections = self._counts.total
        metrics.connections_total += 1
        if may_stay and len(self._line) < self._line_max:
            self._admit(connection)
            return True
        metrics.connections_refused_total += 1
        return False

    def enter_handshake(self, host: str) -> bool:
        """Count in a connection that is not known yet; return whether it may stay."""
        may_stay = self._counts.enter(host)
        self._metrics.connections = self._counts.total
        if not may_stay:
            self._metrics.connections_refused_total += 1
        return may_stay

    def leave_handshake(self, host: str) -> None:
        """Count it out: it ended, or is counted as any other from now on."""
        self._counts.leave(host)
        self._metrics.connections = self._counts.total

    def leave(self, connection: "KafkaConnection") -> None:
        """Count a connection out."""
        self._counts.leave(connection.info.host)
        self._metrics.connections = self._counts.total
        timer = self._leaving.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _admit(self, connection: "KafkaConnection") -> None:
        if self._line:
            self._line_up(connection)
        elif wait_ms := self._delay_ms():
            self._line_up(connection)
            self._call_later(wait_ms, self._next)
        else:
            self._check_address(connection)

    def _line_up(self, connection: "KafkaConnection") -> None:
        connection.hold_back()
        self._quotas.metrics.connections_delayed_total += 1
        self._line.append(connection)

    def _next(self) -> None:
        """Let in the first of those that wait, and those behind it that need not wait longer."""
        while self._line:
            first = self._line.popleft()
            tell("broker_server.line", self._let_in, first)
            if self._line and (wait_ms := self._delay_ms()):
                self._call_later(wait_ms, self._next)
                return

    def _let_in(self, connection: "KafkaConnection") -> None:
        connection.let_in()
        self._check_address(connection)

    def _delay_ms(self) -> int:
        return self._quotas.connections.delay_ms(self._rate_max, self._quotas.now_ms())

    def _check_address(self, connection: "KafkaConnection") -> None:
        quotas = self._quotas
        wait_ms = quotas.connections.refusal_ms(connection.info.host, quotas.now_ms())
        if not wait_ms:
            return
        quotas.metrics.connections_turned_away_total += 1
        connection.hold_back()
        if len(self._leaving) < self._line_max:
            timer = self._call_later(wait_ms, partial(self._turn_away, connection))
            self._leaving[connection] = timer
        else:
            connection.close()

    def _turn_away(self, connection: "KafkaConnection") -> None:
        del self._leaving[connection]
        connection.close()

    def _call_later(self, wait_ms: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(wait_ms / 1000, call)
