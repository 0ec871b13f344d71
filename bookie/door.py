"""The door of a bookie that must know its clients: TLS, authentication, then requests.

    accepted -> `Greeting` says what becomes of each of the first frames, handshake -> let in

A client that is not known yet costs a task, frames of 16 KiB at most and a deadline; there are at
most `STRANGERS_MAX` of them. Their requests reach neither the bookie nor its budgets.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.bookie.greeting import Greeting, GreetingRules, Then, Verdict
from tailrace.bookie.metrics import DoorMetrics
from tailrace.bookie.security_config import ROLES_FACTORY, SASL_FACTORY, BookieSecurity
from tailrace.core.runtime.config import ConfigError, Secret
from tailrace.core.runtime.first_frames import (
    HANDSHAKE_S,
    SHUTDOWN_S,
    FirstFrames,
    HandshakeFailed,
    Successor,
    TlsSide,
)
from tailrace.core.runtime.tasks import Tasks
from tailrace.core.security.digest_md5 import BOOKKEEPER, DigestServer
from tailrace.core.security.jaas_file import USER_PREFIX, InvalidJaas, read_section
from tailrace.core.security.open_bookkeeper_tls import open_tls
from tailrace.protocol.bookkeeper import v2_answers, v2_requests
from tailrace.protocol.bookkeeper.codec import decode_request, encode_response
from tailrace.protocol.bookkeeper.messages import Request, Response, StartTlsRequest
from tailrace.protocol.bookkeeper.v2_requests import Origin, is_v2
from tailrace.protocol.errors import FrameTooLarge, ProtocolError
from tailrace.protocol.ids import Buffer

if TYPE_CHECKING:
    from tailrace.core.security.bookkeeper_tls import BookKeeperTls

logger = logging.getLogger(__name__)

STRANGERS_MAX: Final = 1_000
"""Connections whose client is not known yet; one more is closed at once."""
KNOWN_WITHIN_S: Final = 2 * HANDSHAKE_S
"""How long a client has for all of it."""

EARLY_S: Final = 1.0
"""How long an AUTH in clear waits for a START_TLS behind it before it is refused."""

_OVER: Final = (Then.CLOSE, Then.ADMIT, Then.SUBMIT)


class Door:
    """Lets clients in. All calls come from the loop."""

    def __init__(self, config: BookieSecurity) -> None:
        """Read keys, certificates and users. Blocks, 50 ms with PKCS12.

        Errors: ConfigError, of what cannot be used.
        """
        self.metrics = DoorMetrics()
        self._users = _users(config)
        self._rules = GreetingRules(
            offers_tls=config.tls.is_enabled,
            needs_tls=config.needs_tls,
            may_enter=_name_rule(config),
            has_role=_role_rule(config),
        )
        self._tls = open_tls(config.tls, is_bookie=True)
        self._tasks = Tasks("bookie_door")
        self._visits: dict[_Visit, None] = {}
        self._is_closed = False
        self._strangers = 0
        """Connections that are not welcome yet."""
        self._loop = asyncio.get_running_loop()

    def protocol(self, admit: Callable[[], Successor]) -> FirstFrames:
        """Return the protocol of a new connection; `admit` makes the one of a client let in."""
        return FirstFrames(lambda first: self._welcome(first, admit))

    async def close(self) -> None:
        """End the connections of all that are not let in. Idempotent."""
        self._is_closed = True
        await self._tasks.close()
        for visit in self._visits:  # whose tasks had not begun
            visit.first.abort()
        self._visits.clear()
        if self._tls is not None:
            await self._tls.close()

    def _welcome(self, first: FirstFrames, admit: Callable[[], Successor]) -> None:
        greeting = Greeting(self._rules, self._exchange())
        visit = _Visit(first, greeting, self._tls, is_stranger=not greeting.is_welcome)
        if self._is_closed:
            first.abort()
            return
        if visit.is_stranger and self._strangers >= STRANGERS_MAX:
            self._refuse(first, f"{STRANGERS_MAX} others are not known yet")
            first.abort()
            return
        self._visits[visit] = None
        self._strangers += visit.is_stranger
        self._tasks.start(self._let_in(visit, admit), "greet")

    async def _let_in(self, visit: "_Visit", admit: Callable[[], Successor]) -> None:
        try:
            async with asyncio.timeout(KNOWN_WITHIN_S if visit.is_stranger else None):
                reason = await visit.run()
            if reason:
                self._refuse(visit.first, reason)
                visit.first.close()
                self._loop.call_later(SHUTDOWN_S, visit.first.abort)
            else:
                visit.first.hand_over(admit())
                self.metrics.tls_connections_total += visit.first.is_inside_tls
        except TimeoutError:
            self._refuse(visit.first, f"not known within {KNOWN_WITHIN_S:.0f} s")
            visit.first.abort()
        except (OSError, ProtocolError) as error:  # HandshakeFailed is of the first kind
            self._refuse(visit.first, str(error))
            visit.first.abort()
        except BaseException:
            visit.first.abort()
            raise
        finally:
            self._visits.pop(visit)
            self._strangers -= visit.is_stranger

    def _exchange(self) -> DigestServer | None:
        if self._users is None:
            return None
        return DigestServer(BOOKKEEPER, secrets.token_hex(16), self._password_of)

    def _password_of(self, user: str) -> str | None:
        assert self._users is not None, "there is SASL"
        password = self._users.get(user)
        return None if password is None else password.reveal()

    def _refuse(self, first: FirstFrames, reason: str) -> None:
        self.metrics.refusals_total += 1
        logger.warning("connection closed peer=%s reason=%s", first.peer, reason)


class _Visit:
    """One connection at the door."""

    def __init__(
        self,
        first: FirstFrames,
        greeting: Greeting,
        tls: "BookKeeperTls | None",
        *,
        is_stranger: bool,
    ) -> None:
        self.first = first
        self.is_stranger = is_stranger
        self.greeting = greeting
        self._tls = tls
        self._early: Buffer | None = None
        """An AUTH that came in clear before START_TLS."""

    async def run(self) -> str:
        """Hear the client until it is let in, then return ""; or why it is not.

        Errors: ConnectionError, HandshakeFailed, ProtocolError.
        """
        while True:
            try:
                frame = await self.first.receive()
            except FrameTooLarge:
                if self.greeting.is_welcome:
                    return ""
                raise
            if await self._is_early(frame):
                self._early = frame
                continue
            verdict = self._hear(frame)
            if verdict.then is Then.START_TLS:
                async with asyncio.timeout(KNOWN_WITHIN_S):
                    verdict = await self._start_tls()
            if verdict.then is Then.SUBMIT:
                self.first.take_back()
            if verdict.then in _OVER:
                return verdict.reason

    async def _is_early(self, frame: Buffer) -> bool:
        """Whether a request waits for the handshake: START_TLS comes next. See `Greeting`."""
        if not self.greeting.may_come_early(_decode(frame)[1]):
            return False
        if not (self.first.has_more or self.greeting.needs_tls):
            return False  # nothing says that there will be TLS
        try:
            async with asyncio.timeout(EARLY_S):
                behind = await self.first.receive()
        except (TimeoutError, FrameTooLarge):
            return False
        self.first.take_back()
        return isinstance(_decode(behind)[1], StartTlsRequest)

    def _hear(self, frame: Buffer) -> Verdict:
        origin, request = _decode(frame)
        verdict = self.greeting.hear(request, is_v2=isinstance(origin, Origin))
        if verdict.response is not None:
            self._answer(origin, verdict.response)
        return verdict

    async def _start_tls(self) -> Verdict:
        assert self._tls is not None, "START_TLS is refused without it"
        context = await self._tls.context(asyncio.get_running_loop().time())
        early = self._early
        if early is None and self.first.has_more:
            early = await self.first.receive()
            if not self.greeting.may_come_early(_decode(early)[1]):
                raise HandshakeFailed("a request came in clear before the handshake")
        self.first = await self.first.start_tls(TlsSide(context, server_side=True))
        if not self.greeting.enter_tls(self.first.certificate):
            logger.warning("client_without_role peer=%s its requests get EUA", self.first.peer)
        if early is not None:
            return self._hear(early)
        return Verdict(Then.ADMIT if self.greeting.is_welcome else Then.GO_ON)

    def _answer(self, origin: int | Origin, response: Response) -> None:
        """Answer in the protocol of the request, as far as that has words for it."""
        if isinstance(origin, Origin):
            self.first.send(v2_answers.encode_response(origin, response))
        else:
            self.first.send(encode_response(origin, response))


def _decode(frame: Buffer) -> tuple[int | Origin, Request]:
    return v2_requests.decode_request(frame) if is_v2(frame) else decode_request(frame)


def _users(config: BookieSecurity) -> dict[str, Secret] | None:
    """Return passwords by user; None: there is no SASL. Blocks. Errors: InvalidJaas."""
    if config.factory != SASL_FACTORY or config.jaas.file is None:
        return None
    options = read_section(config.jaas.file, config.section)
    users = {
        name.removeprefix(USER_PREFIX): password
        for name, password in options.items()
        if name.startswith(USER_PREFIX) and password
    }
    if not users:
        place = f"{config.jaas.file}: section {config.section}"
        raise InvalidJaas(f"{place}: no user; write {USER_PREFIX}NAME=PASSWORD")
    return users


def _name_rule(config: BookieSecurity) -> Callable[[str], bool] | None:
    """Say which users may come in. Errors: ConfigError."""
    if config.factory != SASL_FACTORY:
        return None
    from tailrace.core.runtime.expressions import BadExpression, expression  # RE2 is large

    try:
        allowed = expression(config.allowed_ids)
    except BadExpression as error:
        raise ConfigError(f"saslJaasClientAllowedIds: {error}") from error
    return lambda user: allowed.fullmatch(user) is not None


def _role_rule(config: BookieSecurity) -> Callable[[bytes | None], bool] | None:
    if config.factory != ROLES_FACTORY:
        return None
    from tailrace.bookie.roles import role_in  # cryptography is large

    def has_role(certificate: bytes | None) -> bool:
        return certificate is not None and role_in(certificate) in config.roles

    return has_role
