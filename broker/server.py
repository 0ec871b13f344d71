"""The listening sockets and their connections: accept, watch over, stop.

A connection is a fault boundary of its own. What needs a clock (idle connections, clients that do
not drain, produces past their deadline) is looked at by one task, `CHECK_S` apart: no timer per
request. Stopping: no new connections, no new requests, what is in flight is answered until the
deadline, then everything is closed.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

import tailrace.broker.handlers.registry  # noqa: F401 - fills the table of handlers
from tailrace.broker.broker import Broker
from tailrace.broker.config import BrokerConfig, NetworkConfig
from tailrace.broker.connection import KafkaConnection
from tailrace.broker.connection_gate import ConnectionGate
from tailrace.broker.connection_owner import ConnectionOwner
from tailrace.broker.listeners import ANONYMOUS
from tailrace.core.access.principals import NoUser, PrincipalRules
from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.frame_user import FrameLimits
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.net import FrameChannel
from tailrace.core.runtime.plain_listener import PlainListener
from tailrace.core.runtime.receive_buffer import ReceiveBuffer
from tailrace.core.runtime.tasks import Tasks
from tailrace.core.security.tls_listener import TlsDoor, TlsListener

if TYPE_CHECKING:
    from tailrace.core.security.tls_server import TlsServer

logger = logging.getLogger(__name__)

BY_CERTIFICATE = "SSL"
"""The mechanism by which the audit log calls a client's certificate."""
CHECK_S = 0.25
"""Distance of checks, and so how late a deadline may be noticed."""


class BrokerServer:
    """The listeners of a broker."""

    def __init__(self, broker: Broker, metrics: Metrics | None = None) -> None:
        self._broker = broker
        self._config = broker.config.network
        self._tasks = Tasks("broker_server")
        self._checks = Forever("broker_server.check")
        self._listening: dict[str, PlainListener | TlsListener] = {}
        self._connections: set[KafkaConnection] = set()
        self._gate = ConnectionGate(self._config, broker.quotas.clients, broker.metrics)
        broker.configs.listen(lambda config: self._gate.use(config.network))
        self._loop = asyncio.get_running_loop()
        self._requests = Budget("request bytes", self._config.queued_bytes_max)
        self._protocols = self._config.protocols
        self._limits = FrameLimits(
            frame_bytes_max=self._config.request_bytes_max,
            write_high_bytes=self._config.unsent_bytes_max,
            stall_s=self._config.stall_ms / 1000,
        )
        self._receive = ReceiveBuffer(unfinished_bytes_max=self._config.queued_bytes_max)
        self._owner = ConnectionOwner(
            broker=broker,
            requests=self._requests,
            spawn=lambda work: self._tasks.spawn(work, "request"),
            now_s=self._loop.time,
            opened=self._on_opened,
            admit=self._admit,
            closed=self._on_closed,
        )
        broker.cut_connections = self.cut_connections
        self._tls: dict[str, TlsServer] = {}
        self._rules = {
            name: PrincipalRules(self._config.principal_rules_of(name))
            for name in self._config.protocols
        }
        broker.configs.listen(lambda config: self._configure_tls(config.network))
        broker.configs.check_slowly_with(self._check_tls)
        self._metrics = metrics
        if metrics is not None:
            metrics.register("broker", broker.metrics)
            metrics.register("broker_authentication", broker.authentication.metrics)
            metrics.register("broker_lane", broker.partitions.shared.lane.metrics)

    @property
    def port(self) -> int:
        """The port of the first listener; the real one when 0 was asked for."""
        return next(iter(self._listening.values())).port

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """All that clients share here; nothing is in use once they are gone and all is settled."""
        receive = self._receive
        sasl = self._broker.authentication
        strangers = sasl.strangers, sasl.receive.unfinished, sasl.receive.held
        known = self._requests, self._broker.unsent, receive.unfinished, receive.held
        return *known, *strangers

    async def bind(self) -> None:
        """Take the addresses, and say which they are; nobody can connect yet.

        Errors: OSError (address in use, no permission), InvalidKeys; none is taken then.
        """
        for listener in self._config.parsed_listeners:
            listening = self._new_listening(listener.name)
            try:
                await listening.bind(listener.host, listener.port)
            except OSError as error:
                self._stop_listening()
                reason = f"cannot listen at {listener}: {error.strerror}"
                raise OSError(error.errno, reason) from error
            self._listening[listener.name] = listening
        ports = {name: listening.port for name, listening in self._listening.items()}
        self._broker.advertised.bound(ports)

    async def serve(self) -> None:
        """Listen. Errors: OSError: another process took an address as well, and listens."""
        for listening in self._listening.values():
            await listening.serve()
        self._tasks.start(self._checks.run(self._check_later), "check")
        for tls in self._tls.values():
            tls.start()
        for name, endpoint in self._broker.advertised.named.items():
            logger.info("listening listener=%s advertised=%s", name, endpoint)

    async def start(self) -> None:
        """Take the addresses and listen. Errors: OSError."""
        await self.bind()
        await self.serve()

    def cut_connections(self) -> int:
        """Cut every connection there is, as a network would, and return how many there were."""
        connections = list(self._connections)
        for connection in connections:
            connection.cut("fault: cut_connections")
        return len(connections)

    async def close(self) -> None:
        """Answer what is in flight, at most for `shutdown.drain.ms`, then close. Idempotent."""
        if not self._listening:
            return
        self._stop_listening()
        for connection in list(self._connections):
            connection.stop_reading()
        try:
            async with asyncio.timeout(self._config.shutdown_ms / 1000):
                while any(each.in_flight for each in self._connections):  # noqa: ASYNC110 - once
                    await asyncio.sleep(0.01)
        except TimeoutError:
            logger.warning("requests dropped at the stop connections=%d", len(self._connections))
        for connection in list(self._connections):
            connection.close()
        await self._tasks.close()
        for tls in self._tls.values():
            await tls.close()
        await asyncio.sleep(0)  # let the transports report that they are closed

    def _stop_listening(self) -> None:
        for listening in self._listening.values():
            listening.close()
        self._listening.clear()

    def _open_tls(self, listener: str) -> "TlsServer":
        from tailrace.core.security.tls_server import TlsServer  # 100 ms, for those who need it

        tls = self._tls[listener] = TlsServer(self._config.tls_of(listener))
        if self._metrics is not None:
            self._metrics.register("broker_tls", tls.metrics, listener=listener)
        return tls

    async def _check_tls(self, _: BrokerConfig, wanted: BrokerConfig) -> None:
        """Refuse certificates that could not be used. Errors: InvalidKeys."""
        for listener, tls in self._tls.items():
            await tls.check(wanted.network.tls_of(listener))

    def _configure_tls(self, network: NetworkConfig) -> None:
        for listener, tls in self._tls.items():
            tls.configure(network.tls_of(listener))

    def _new_listening(self, listener: str) -> "PlainListener | TlsListener":
        make = partial(self._make_connection, listener)
        backlog = self._config.backlog
        if not self._protocols[listener].uses_tls:
            return PlainListener(make, backlog)
        tls = self._open_tls(listener)
        door = TlsDoor(
            context=lambda: tls.context,
            within_s=self._config.handshake_ms_max / 1000,
            enter=self._gate.enter_handshake,
            leave=self._gate.leave_handshake,
            spawn=lambda work: self._tasks.spawn(work, "handshake"),
            failed=tls.count_failure,
            make=make,
        )
        return TlsListener(door, backlog)

    def _user_of(self, listener: str, certificate: bytes | None) -> str:
        if certificate is None:
            return ANONYMOUS
        return self._rules[listener].user_of(self._tls[listener].subject_of(certificate))

    def _make_connection(self, listener: str) -> FrameChannel:
        if not self._protocols[listener].uses_sasl:
            user = KafkaConnection(self._owner, listener)
            return FrameChannel(user, self._limits, self._requests, self._receive)
        sasl = self._broker.authentication
        limits = self._limits._replace(frame_bytes_max=sasl.configs[listener].receive_bytes_max)
        listening = self._listening[listener]
        now_s = self._loop.time()
        began_s = listening.accepted_s if isinstance(listening, TlsListener) else now_s
        user = KafkaConnection(self._owner, listener, stranger_since_s=began_s)
        return FrameChannel(user, limits, sasl.strangers, sasl.receive)

    def _admit(self, channel: FrameChannel) -> None:
        channel.admit(self._limits, self._requests, self._receive)

    def _on_opened(self, connection: KafkaConnection, certificate: bytes | None) -> str:
        self._connections.add(connection)
        if not self._gate.enter(connection):
            return "too many connections"
        if self._protocols[connection.info.listener].uses_sasl:
            return ""  # it says so itself, whatever its certificate says
        try:
            connection.info = connection.info._replace(
                user=self._user_of(connection.info.listener, certificate)
            )
        except NoUser as error:
            if audit := self._broker.audit:
                info = connection.info
                audit.refused(info.host, info.listener, BY_CERTIFICATE, str(error))
            return str(error)
        if certificate is not None and (audit := self._broker.audit):
            info = connection.info
            audit.authenticated(info.requester, info.listener, BY_CERTIFICATE)
        return ""

    def _on_closed(self, connection: KafkaConnection) -> None:
        self._connections.discard(connection)
        self._gate.leave(connection)

    async def _check_later(self) -> None:
        """Look, after a while, for connections that are idle, stalled or waited for too long."""
        await asyncio.sleep(CHECK_S)
        now_s = self._loop.time()
        for connection in list(self._connections):
            with self._checks.item(connection.info.host):
                connection.check(now_s)
