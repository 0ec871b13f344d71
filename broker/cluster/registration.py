"""A broker's registration: the ephemeral node by which others find it, kept there.

The node is Kafka's own (`/brokers/ids/<id>`, version 5), below the namespace instead of the root.
It is also the proof that nobody else runs under this id: what a former process of that id and
address left behind, here or in the locks of logs, is a trace that need not be waited for, because
this process listens at that address now.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from tailrace.broker.listeners import Advertised, Listener, SecurityProtocol
from tailrace.core.errors import CoreError, CorruptData, NodeExists
from tailrace.core.metadata.ephemeral_node import EphemeralNode
from tailrace.core.metadata.store import MetadataStore, SessionEvent
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.metrics import counter, gauge
from tailrace.core.runtime.stored_json import NOT_JSON, Int32
from tailrace.core.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

SIGN_OFF_S: Final = 2.0
"""How long a close waits for the store, which may be away."""

RETRY_S_MAX: Final = 5.0
"""Between attempts to register again, at most."""


class BrokerNode(msgspec.Struct, frozen=True, kw_only=True):
    """What the node says: Kafka's JSON. Source: kafka.zk.BrokerIdZNode."""

    host: str
    port: Int32
    endpoints: list[str]
    listener_security_protocol_map: dict[str, str]
    timestamp: str
    """Time of the start. Unit: ms."""
    rack: str | None = None
    jmx_port: Int32 = -1
    features: dict[str, Int32] = {}
    version: Int32 = 5


_DECODER = msgspec.json.Decoder(BrokerNode)


def broker_node(
    advertised: Advertised,
    protocols: Mapping[str, SecurityProtocol],
    rack: str,
    started_ms: int,
) -> BrokerNode:
    """Return what a broker says of itself; `host` and `port` are for the other brokers."""
    host, port = advertised.inter_broker
    named = advertised.named
    return BrokerNode(
        host=host,
        port=port,
        endpoints=[str(Listener(name, *endpoint)) for name, endpoint in named.items()],
        listener_security_protocol_map={name: protocols[name].value for name in named},
        timestamp=str(started_ms),
        rack=rack or None,
    )


def encode_broker(node: BrokerNode) -> bytes:
    """Return the bytes of a node."""
    return msgspec.json.encode(node)


def decode_broker(data: bytes) -> BrokerNode:
    """Read a node, of Kafka's brokers too. Errors: CorruptData."""
    try:
        return _DECODER.decode(data)
    except NOT_JSON as error:
        raise CorruptData(f"a broker's registration does not decode: {error}") from error


@dataclass(slots=True)
class RegistrationMetrics:
    """Numbers of one registration. Register them as `broker_registration`."""

    registered: int = gauge("1 while this broker's node is there, as far as is known")
    failures_total: int = counter("attempts to register again that failed")


class BrokerRegistration:
    """The registration of one broker. All calls come from the loop."""

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        node: BrokerNode,
        stale_wait_ms: int,
        on_refused: Callable[[], None],
    ) -> None:
        """`stale_wait_ms`: how long a node of another address may take to go.

        `on_refused` hears once that another process has the id when this one registers again.
        """
        self.metrics = RegistrationMetrics()
        self._store = store
        self._node = EphemeralNode(
            store,
            path,
            encode_broker(node),
            is_trace=lambda data: _is_same(data, node),
            parents=True,
        )
        self._stale_wait_ms = stale_wait_ms
        self._on_refused = on_refused
        self._tasks = Tasks("broker_registration")
        self._again = Forever("broker_registration.again", pause_s_max=RETRY_S_MAX)
        self._is_wanted = False
        self._is_retrying = False
        store.on_session(self._on_session)

    async def register(self) -> None:
        """Make the node. Errors: NodeExists (another process has this id), Unavailable."""
        session_id = None
        while session_id != self._store.session_id:  # one that ended meanwhile took the node along
            session_id = self._store.session_id
            await self._node.make(self._stale_wait_ms)
        self._is_wanted = True
        self.metrics.registered = 1

    async def close(self) -> None:
        """Sign off, within `SIGN_OFF_S`. Idempotent. The end of the session does it otherwise."""
        self._is_wanted = False
        self.metrics.registered = 0
        await self._tasks.close()
        try:
            async with asyncio.timeout(SIGN_OFF_S):
                await self._node.remove()
        except (CoreError, TimeoutError) as error:
            logger.warning("broker_sign_off_failed path=%s error=%r", self._node.path, error)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.NEW_SESSION and self._is_wanted and not self._is_retrying:
            self.metrics.registered = 0
            self._is_retrying = True
            self._tasks.start(self._register_again(), "register again")

    async def _register_again(self) -> None:
        """Make the node again until it is there; the pauses bound the load, not the time."""
        try:
            await self._again.until_done(self._try_again)
        finally:
            self._is_retrying = False

    async def _try_again(self) -> None:
        try:
            await self.register()
        except NodeExists as error:
            logger.warning("broker_id_taken error=%s", error)
            self._on_refused()
        except Exception:
            self.metrics.failures_total += 1
            raise


def _is_same(data: bytes, node: BrokerNode) -> bool:
    """Tell a node that says the same address: only one process can listen there."""
    try:
        found = decode_broker(data)
    except CorruptData:
        return False
    return (found.host, found.port) == (node.host, node.port)
