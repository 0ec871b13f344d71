"""The proxies of one service, as a client knows them: routing, owners, and what answers teach.

Source: DistributedLog DistributedLogClientImpl, OwnershipCache; reference 9.4.
"""

import logging
from collections.abc import Sequence

from tailrace.core.runtime.clock import Clock
from tailrace.proxy.client.owners import OwnerCache
from tailrace.proxy.client.reactions import (
    Attempts,
    Choice,
    HostLoss,
    Outcome,
    Reaction,
    Rules,
    choose,
    react,
)
from tailrace.proxy.client.routes import Routes
from tailrace.proxy.client.transport import Transport
from tailrace.proxy.routing.hosts import Member
from tailrace.proxy.routing.ring import Host

logger = logging.getLogger(__name__)


class Proxies:
    """Whom to ask, for one service. All calls come from the loop."""

    def __init__(
        self,
        routes: Routes,
        transport: Transport,
        clock: Clock,
        rules: Rules,
        owners: OwnerCache | None = None,
    ) -> None:
        """`owners`: None for a service whose streams have none."""
        self.routes = routes
        self.transport = transport
        self.owners = owners
        self._clock = clock
        self._rules = rules

    def update(self, source: int, members: Sequence[Member]) -> None:
        """Take in the members of a source; connections to hosts that left are dropped."""
        before = self.routes.hosts
        self.routes.update(source, members)
        for host in set(before) - set(self.routes.hosts):
            self._forget(host)

    def choose(self, stream: str, attempts: Attempts, redirect: Host | None = None) -> Choice:
        """Return the proxy to ask for a stream now. Without any, those left out come back."""
        routes = self.routes
        routes.expire(self._now_ms())
        if routes.is_empty:
            routes.readmit()
        owner = self.owners.get(stream) if self.owners is not None else None
        return choose(
            attempts,
            redirect,
            owner,
            lambda tried, unavailable: routes.first(stream, tried, unavailable),
        )

    def learn(
        self, stream: str, outcome: Outcome, host: Host, attempts: Attempts, location: str = ""
    ) -> Reaction:
        """Take in an answer; return what it means for its request."""
        reaction = react(outcome, host, attempts, self._rules, location)
        if reaction.loses_host is HostLoss.FAILED:
            self.routes.failed(host, self._now_ms())
        elif reaction.loses_host is HostLoss.REFUSED:
            self.routes.refused(host, self._now_ms())
        if reaction.loses_host is not None:
            logger.info("proxy_left_out host=%s:%d outcome=%s", *host, outcome.name)
        if reaction.marks_region:
            attempts.unavailable.add(self.routes.region_of(host))
        self._learn_owner(stream, host, reaction)
        return reaction

    def _learn_owner(self, stream: str, host: Host, reaction: Reaction) -> None:
        owners = self.owners
        if owners is None:
            return
        if reaction.loses_host is not None:
            owners.drop_host(host)
        if reaction.drops_owner:
            owners.drop(stream)
        if reaction.owner is not None and owners.get(stream) != reaction.owner:
            owners.put(stream, reaction.owner)

    def _forget(self, host: Host) -> None:
        self.transport.forget(host)
        if self.owners is not None:
            self.owners.drop_host(host)

    def _now_ms(self) -> int:
        return round(self._clock.monotonic_s() * 1000)
