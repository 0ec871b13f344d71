"""One connection's talk about who it is: requests in, answers out, one at a time.

The order of things is `SaslSession`'s; here bytes become its inputs, and mechanisms are asked.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.broker.authentication.sasl_session import Phase, Refusal, SaslSession
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import HANDLERS
from tailrace.broker.listeners import ConnectionInfo
from tailrace.broker.refusals import error_response, unsupported_frame
from tailrace.core.access.requester import Requester
from tailrace.core.access.sasl.mechanism import AuthenticationFailed, SaslExchange
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import API_VERSIONS, APIS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from tailrace.protocol.kafka.codec import decode_request
from tailrace.protocol.kafka.header import (
    RequestHeader,
    UnsupportedRequest,
    decode_request_header,
    response_frame,
)
from tailrace.protocol.kafka.messages.sasl_authenticate import (
    SaslAuthenticateResponse,
)
from tailrace.protocol.kafka.messages.sasl_handshake import (
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from tailrace.broker.broker import Broker

logger = logging.getLogger(__name__)

SASL_APIS: Final = frozenset({SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})


class Reply(NamedTuple):
    """What becomes of one request."""

    parts: list[Buffer]
    """Nothing of it: no answer."""
    ends: str = ""
    """Why the connection is closed after the answer; empty: it goes on."""


class Dialogue:
    """Of one connection. One request at a time; the caller waits for each."""

    def __init__(self, broker: "Broker", listener: str, now_s: Callable[[], float]) -> None:
        self._broker = broker
        self._sasl = broker.authentication
        self._now_s = now_s
        self.config = config = self._sasl.configs[listener]
        self._mechanisms = self._sasl.mechanisms[listener]
        self.session = SaslSession(config.mechanisms, config.reauth_ms_max)
        self._exchange: SaslExchange | None = None

    async def answer(self, info: ConnectionInfo, frame: memoryview) -> Reply:
        """Return what a client is answered; a failure is for the caller to delay.

        Errors: ProtocolError: close at once. Cancel: the connection is gone.
        """
        was_known = self.session.known
        try:
            reply = await self._answer(info, frame)
        except _Failed as failed:
            self._note_failure(info, failed)
            return failed.reply
        if self.session.known is not was_known:
            self._note_success(info)
        return reply

    async def _answer(self, info: ConnectionInfo, frame: memoryview) -> Reply:
        """Return what a client is answered. Errors: _Failed, ProtocolError."""
        if self.session.is_bare and self.session.phase is Phase.EXCHANGE:
            return await self._bare(frame)
        return await self._request(info, frame)

    def _note_failure(self, info: ConnectionInfo, failed: "_Failed") -> None:
        if (audit := self._broker.audit) is not None:
            audit.refused(info.host, info.listener, self.session.mechanism, failed.reply.ends)

    def _note_success(self, info: ConnectionInfo) -> None:
        audit, known = self._broker.audit, self.session.known
        if audit is not None and known is not None:
            requester = Requester(f"User:{known.user}", info.host)
            audit.authenticated(requester, info.listener, known.mechanism)

    def refuses(self, api_key: int) -> str:
        """Return why a request of a client that is known is not done; empty: it is."""
        refusal = self.session.other(_name(api_key), self._now_s())
        if refusal is None:
            return ""
        if self.session.is_expired(self._now_s()):
            self._sasl.metrics.expired_total += 1
        else:
            self._sasl.metrics.failed_order_total += 1
        return refusal.text

    async def _request(self, info: ConnectionInfo, frame: memoryview) -> Reply:
        try:
            header, at = decode_request_header(frame)
        except UnsupportedRequest as error:
            parts = unsupported_frame(error.header)
            if parts is None or self.session.phase is not Phase.START:
                raise
            return Reply(parts)
        if header.api_key == API_VERSIONS.key:
            return self._versions(info, header, frame[at:])
        if header.api_key == SASL_HANDSHAKE.key:
            return self._handshake(header, frame[at:])
        return await self._token(header, frame[at:])

    def _versions(self, info: ConnectionInfo, header: RequestHeader, body: memoryview) -> Reply:
        if refusal := self.session.versions():
            return self._refuse(API_VERSIONS, header, refusal)
        request = decode_request(API_VERSIONS, header.api_version, body)
        handler = HANDLERS[API_VERSIONS.key]
        response = handler.function(RequestContext(self._broker, header, info), request)
        return Reply(_framed(API_VERSIONS, header, response))

    def _handshake(self, header: RequestHeader, body: memoryview) -> Reply:
        request = decode_request(SASL_HANDSHAKE, header.api_version, body)
        chosen = request.mechanism
        refusal = self.session.handshake(chosen, header.api_version, self._now_s())
        if refusal is not None:
            return self._refuse(SASL_HANDSHAKE, header, refusal)
        self._exchange = self._mechanisms[chosen].exchange()
        response = SaslHandshakeResponse(mechanisms=list(self.config.mechanisms))
        return Reply(_framed(SASL_HANDSHAKE, header, response))

    async def _token(self, header: RequestHeader, body: memoryview) -> Reply:
        if header.api_key != SASL_AUTHENTICATE.key:
            refusal = self.session.other(_name(header.api_key), self._now_s())
            assert refusal is not None, "what is known asks its handler"
            return self._refuse(APIS[header.api_key], header, refusal)
        if refusal := self.session.token():
            return self._refuse(SASL_AUTHENTICATE, header, refusal)
        request = decode_request(SASL_AUTHENTICATE, header.api_version, body)
        try:
            message, lifetime_ms = await self._step(bytes(request.auth_bytes))
        except AuthenticationFailed as error:
            refusal = Refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
            return self._refuse(SASL_AUTHENTICATE, header, refusal, error.reason)
        response = SaslAuthenticateResponse(auth_bytes=message, session_lifetime_ms=lifetime_ms)
        return Reply(_framed(SASL_AUTHENTICATE, header, response))

    async def _bare(self, frame: memoryview) -> Reply:
        try:
            message, _ = await self._step(bytes(frame))
        except AuthenticationFailed as error:
            self._sasl.metrics.failed_credentials_total += 1
            raise _Failed(Reply([], f"authentication failed: {error.reason}")) from None
        return Reply([len(message).to_bytes(4, "big"), message])

    async def _step(self, message: bytes) -> tuple[bytes, int]:
        """Return the mechanism's answer, and how long the client is known if it is now."""
        assert self._exchange is not None, "an exchange begins with its mechanism"
        try:
            step = await self._exchange.evaluate(message)
        except AuthenticationFailed:
            self.session.fail()
            raise
        except CoreError as error:
            self._sasl.metrics.failed_busy_total += 1
            raise _Failed(Reply([], f"cannot authenticate: {error}")) from error
        if step.authenticated is None:
            return step.message, 0
        metrics, was_known = self._sasl.metrics, self.session.known is not None
        self._exchange = None
        outcome = self.session.succeed(
            step.authenticated, self._broker.clock.now_ms(), self._now_s()
        )
        if isinstance(outcome, Refusal):
            raise AuthenticationFailed(outcome.text, "another user than before")
        if was_known:
            metrics.again_total += 1
        else:
            metrics.succeeded_total += 1
        return step.message, outcome

    def _refuse(
        self, api: Api[Any, Any], header: RequestHeader, refusal: Refusal, reason: str = ""
    ) -> Reply:
        """Return the answer to what is refused. Errors: _Failed, if the connection ends with it."""
        parts: list[Buffer] = []
        version = header.api_version
        response = None if refusal.is_silent else self._response(api, version, refusal)
        if response is not None:
            parts = _framed(api, header, response)
        if not refusal.ends:
            return Reply(parts)
        self._count(refusal.code)
        raise _Failed(Reply(parts, f"authentication failed: {reason or refusal.text}"))

    def _response(self, api: Api[Any, Any], version: int, refusal: Refusal) -> Any | None:
        code = refusal.code
        if api is SASL_HANDSHAKE:
            mechanisms = list(self.config.mechanisms)
            return SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)
        if api is SASL_AUTHENTICATE:
            return SaslAuthenticateResponse(error_code=code, error_message=refusal.text)
        return error_response(api, version, KafkaError(code))

    def _count(self, code: ErrorCode) -> None:
        metrics = self._sasl.metrics
        if code is ErrorCode.SASL_AUTHENTICATION_FAILED:
            metrics.failed_credentials_total += 1
        elif code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            metrics.failed_mechanism_total += 1
        else:
            metrics.failed_order_total += 1


class _Failed(Exception):
    """The connection ends."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.ends)
        self.reply = reply


def _framed(api: Api[Any, Any], header: RequestHeader, response: Any) -> list[Buffer]:
    return response_frame(api, header.api_version, header.correlation_id, response)


def _name(api_key: int) -> str:
    api = APIS.get(api_key)
    return str(api_key) if api is None else api.name
