"""How a connection to a bookie begins: START_TLS, AUTH, and then requests.

    connect -> START_TLS, its answer in clear -> handshake -> AUTH... -> the connection's protocol

All of this is protocol v3, whatever the requests are. Source: reference BookKeeper 1.8.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tailrace.core.errors import UnauthorizedAccess
from tailrace.core.ledger.security_config import BookieClientSecurity
from tailrace.core.runtime.config import Secret
from tailrace.core.runtime.first_frames import FirstFrames, TlsSide
from tailrace.core.runtime.net import FrameChannel
from tailrace.core.security.digest_md5 import BOOKKEEPER, DigestClient, DigestFailed
from tailrace.core.security.jaas_file import InvalidJaas, read_section
from tailrace.core.security.open_bookkeeper_tls import open_tls
from tailrace.protocol.bookkeeper.codec import decode_response, encode_request
from tailrace.protocol.bookkeeper.messages import (
    AuthRequest,
    AuthResponse,
    OperationType,
    Request,
    Response,
    StartTlsRequest,
    StatusCode,
    operation_of,
)

if TYPE_CHECKING:
    from tailrace.core.security.bookkeeper_tls import BookKeeperTls

logger = logging.getLogger(__name__)

MakeProtocol: TypeAlias = Callable[[], FrameChannel]

_TXN_ID: Final = 0
"""Of all requests here; those of the connection itself begin with 1."""
SASL: Final = "sasl"
DISABLED: Final = "AuthDisabledPlugin"
"""Plug-ins as Java's bookie calls them; with the second one no client need authenticate."""
ANSWERS_MAX: Final = 8
"""To something else that are passed over."""


class _Login(NamedTuple):
    user: str
    password: Secret


class Entrance:
    """The way into the bookies of a cluster. Shared by its connections.

    Invariant: nothing but START_TLS goes out in clear where TLS is set.
    """

    def __init__(self, config: BookieClientSecurity) -> None:
        """Read keys, certificates and password. Blocks, 50 ms with PKCS12. Errors: ConfigError."""
        self._tls = open_tls(config.tls, is_bookie=False)
        self._login = _login(config)

    async def enter(self, host: str, port: int, make: MakeProtocol) -> None:
        """Connect; the protocol that `make` returns has the connection once it is secure.

        Errors: OSError, HandshakeFailed, UnauthorizedAccess (the bookie refuses), ProtocolError.
        Cancel: the connection is closed.
        """
        loop = asyncio.get_running_loop()
        if self._tls is None and self._login is None:
            await loop.create_connection(make, host, port)
            return
        _, first = await loop.create_connection(FirstFrames, host, port)
        try:
            if self._tls is not None:
                first = await self._start_tls(first, self._tls, host)
            if self._login is not None:
                await _authenticate(first, self._login)
            first.hand_over(make())
        except BaseException:
            first.abort()
            raise

    async def close(self) -> None:
        """Let go of what reads files. Idempotent."""
        if self._tls is not None:
            await self._tls.close()

    async def _start_tls(self, first: FirstFrames, tls: "BookKeeperTls", host: str) -> FirstFrames:
        context = await tls.context(asyncio.get_running_loop().time())
        answer = await _ask(first, StartTlsRequest())
        if answer.status is not StatusCode.EOK:
            raise UnauthorizedAccess(
                f"the bookie answers {answer.status.name} to START_TLS: "
                "set tlsProviderFactoryClass there too, or nowhere"
            )
        return await first.start_tls(TlsSide(context, server_side=False, server_hostname=host))


def _login(config: BookieClientSecurity) -> _Login | None:
    if not config.auth.factory or config.jaas.file is None:
        return None
    options = read_section(config.jaas.file, config.auth.section)
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        place = f"{config.jaas.file}: section {config.auth.section}"
        raise InvalidJaas(f"{place}: it needs username and password")
    return _Login(user.reveal(), password)


async def _authenticate(first: FirstFrames, login: _Login) -> None:
    exchange = DigestClient(BOOKKEEPER, login.user, login.password.reveal(), secrets.token_hex(16))
    challenge: bytes | None = None
    while (message := _respond(exchange, challenge)) is not None:
        answer = await _ask(first, AuthRequest(SASL, message))
        if not isinstance(answer, AuthResponse) or answer.status is not StatusCode.EOK:
            raise UnauthorizedAccess(
                f"the bookie answers {answer.status.name} to {login.user!r}: not its user, another "
                "password, or not among its saslJaasClientAllowedIds"
            )
        if answer.plugin == DISABLED:
            logger.info("bookie_without_authentication peer=%s", first.peer)
            return
        if answer.plugin != SASL:
            raise UnauthorizedAccess(f"the bookie authenticates by {answer.plugin!r}")
        challenge = bytes(answer.payload)


def _respond(exchange: DigestClient, challenge: bytes | None) -> bytes | None:
    try:
        return exchange.respond(challenge)
    except DigestFailed as error:
        raise UnauthorizedAccess(f"authentication at the bookie: {error}") from error


async def _ask(first: FirstFrames, request: Request) -> Response:
    """Return the answer to a request.

    Java's bookie may say in between, once more to START_TLS, that its client is not authenticated
    yet: that is passed over.
    """
    first.send(encode_request(_TXN_ID, request))
    for _ in range(ANSWERS_MAX):
        _, response = decode_response(await first.receive())
        if operation_of(response) == operation_of(request):
            return response
    raise UnauthorizedAccess(f"no answer to {OperationType(operation_of(request)).name}")
