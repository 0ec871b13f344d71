"""Asking all write proxies what they own, at first and then now and again.

Each answer fills the cache of owners, so that a first request goes to the right proxy.
Source: DistributedLog ClusterClient handshake, OwnershipCache; reference 9.4.
"""

import asyncio
import logging
from typing import Final

from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import together
from tailrace.protocol.proxy.methods import WRITE_PROXY
from tailrace.protocol.proxy.write_proxy_pb2 import HandshakeRequest
from tailrace.proxy.client.caller import Caller
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.owners import OwnerCache
from tailrace.proxy.client.proxies import Proxies
from tailrace.proxy.client.reactions import Attempts
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.location import parse_location
from tailrace.proxy.routing.ring import Host

logger = logging.getLogger(__name__)

AT_ONCE: Final = 16
NOT_KNOWN_S: Final = 0.5
"""Until the next round while no proxy is known."""
_METHOD: Final = WRITE_PROXY.methods["handshake"]


class Handshakes:
    """The handshakes of one client; `run` is a task of its."""

    def __init__(
        self, proxies: Proxies, owners: OwnerCache, caller: Caller, config: ClientConfig
    ) -> None:
        self._proxies = proxies
        self._owners = owners
        self._caller = caller
        self._interval_s = config.handshake_interval_ms / 1000

    async def run(self) -> None:
        """Ask all, again and again. Cancel: ends it."""
        await Forever("proxy_client.handshakes").run(self._round)

    async def _round(self) -> None:
        await self.ask_all()
        is_known = bool(self._proxies.routes.hosts)
        await asyncio.sleep(self._interval_s if is_known else NOT_KNOWN_S)

    async def ask_all(self) -> None:
        """Ask each proxy that is known, some at once. Errors: none: one that fails is left out."""
        hosts = self._proxies.routes.hosts
        for at in range(0, len(hosts), AT_ONCE):
            await together([self._ask(host) for host in hosts[at : at + AT_ONCE]])

    async def _ask(self, host: Host) -> None:
        request = HandshakeRequest(get_ownerships=True)
        asked = await self._caller.ask_once(_METHOD, host, request)
        if asked.outcome is not StatusCode.SUCCESS:
            logger.debug("handshake_failed host=%s:%d outcome=%s", *host, asked.outcome.name)
            self._proxies.learn("", asked.outcome, host, Attempts())
            return
        for stream, text in asked.answer.ownerships.items():
            location = parse_location(text)
            if location is not None:
                self._owners.put(stream, Host(location.host, location.port))
