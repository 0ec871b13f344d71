"""One blocking connection to a Kafka broker: the project's own codec, one request at a time.

For what librdkafka cannot do: administration that its clients do not ask for, and fetches whose
batches somebody wants as they are. Each request goes in the highest version that both sides speak.
How it gets in, by TLS and SASL, an `Entrance` says.
"""

import socket
import struct
import time
from contextlib import closing
from typing import Protocol, TypeVar

from tailrace.protocol.errors import ProtocolError
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import API_VERSIONS
from tailrace.protocol.kafka.codec import decode_response, encode_request
from tailrace.protocol.kafka.header import RequestHeader, decode_response_header, request_frame
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest

Q = TypeVar("Q")
R = TypeVar("R")

ANSWER_BYTES_MAX = 512 * 1024 * 1024
"""A longer answer is none. A fetch may exceed what was asked for by one batch of any size."""
STRANGER_BYTES_MAX = 1024 * 1024
"""The same, of a broker that has not let us in yet: nothing long is asked of it."""


class KafkaConnectionError(Exception):
    """No answer that can be used. `cause` says what is wrong, `place` is the broker."""

    def __init__(self, cause: str, place: str) -> None:
        super().__init__(f"{place}: {cause}")
        self.cause = cause
        self.place = place


class NoAnswer(KafkaConnectionError):
    """The broker cannot be reached, or did not answer in time: later it may."""


class NotKafka(KafkaConnectionError):
    """What answers does not speak Kafka's protocol."""


class NotServed(KafkaConnectionError):
    """The broker has no version of the request that we speak."""


class NotLetIn(KafkaConnectionError):
    """One side does not trust the other: its certificate, or its user's password."""


class Entrance(Protocol):
    """How a client gets in."""

    def encrypt(self, connection: socket.socket, host: str) -> socket.socket:
        """Return what to speak over: the connection itself, or TLS over it. Errors: OSError."""

    def is_refusal(self, error: OSError) -> bool:
        """Whether an error says that one side does not trust the other."""

    def log_in(self, connection: "KafkaConnection") -> float | None:
        """Log in by requests of the connection; return for how long, None: for good. Unit: s.

        Errors: NotLetIn, and those of `ask`.
        """


class KafkaConnection:
    """A connection. Errors of every method: NoAnswer, NotKafka, NotLetIn; it is useless then."""

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float,
        client_id: str,
        entrance: Entrance | None = None,
    ) -> None:
        """Connect, get in, and ask what is served.

        `timeout_s`: for each step, at least a millisecond. `entrance` None: without TLS and SASL.
        """
        self.place = f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._entrance = entrance
        self._receive_flags: int = socket.MSG_WAITALL
        self._is_in = False
        """Whether the broker has let us in."""
        self._log_in_at_s: float | None = None
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise self._lost(error) from error
        try:
            self._prepare(timeout_s)
            if entrance is not None:
                self._socket = self._encrypted(entrance, host, timeout_s)
            asked = self._ask(API_VERSIONS, 0, ApiVersionsRequest())
            self._latest = {each.api_key: each.max_version for each in asked.api_keys}
            self._log_in()
            self._is_in = True
        except (OSError, KafkaConnectionError) as error:
            self._socket.close()
            if isinstance(error, OSError):
                raise self._lost(error) from error
            raise

    def version(self, api: Api[Q, R], version_max: int | None = None) -> int:
        """Return the version that `ask` uses. Errors: NotServed if there is none."""
        latest = api.versions[-1] if version_max is None else version_max
        version = min(self._latest.get(api.key, -1), latest)
        if version < api.versions[0]:
            raise NotServed(
                f"the broker does not serve {api.name} in version {api.versions[0]} or later",
                self.place,
            )
        return version

    def ask(self, api: Api[Q, R], request: Q, version_max: int | None = None) -> R:
        """Send a request and return its answer. Errors: NotServed too.

        Cost: record bytes are slices of the answer.
        """
        version = self.version(api, version_max)
        if self._log_in_at_s is not None and time.monotonic() >= self._log_in_at_s:
            self._log_in()
        return self._ask(api, version, request)

    def close(self) -> None:
        """Close, also under the feet of a thread that waits for an answer. Idempotent."""
        with closing(self._socket):
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it was never connected, or is closed

    def _prepare(self, timeout_s: float) -> None:
        """Have the system wait, so that one call receives a whole answer without Python's lock.

        With Python's own timeout each piece of an answer is a call, and after each of them another
        thread that computes keeps the lock for 5 ms: with 200 MB that were seconds.
        """
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        seconds, part = divmod(max(timeout_s, 0.001), 1)
        limit = struct.pack("ll", int(seconds), int(part * 1e6))  # zeros would be no limit
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._socket.settimeout(None)

    def _encrypted(self, entrance: Entrance, host: str, timeout_s: float) -> socket.socket:
        """Return what to speak over. OpenSSL takes the system's limits for reasons to try again."""
        plain = self._socket
        plain.settimeout(timeout_s)
        encrypted = entrance.encrypt(plain, host)
        if encrypted is plain:
            plain.settimeout(None)
        else:
            self._receive_flags = 0
        return encrypted

    def _log_in(self) -> None:
        """Log in, for the first time or again; for how long, the broker says."""
        self._log_in_at_s = None  # the requests of a log-in wait for none
        lasts_s = None if self._entrance is None else self._entrance.log_in(self)
        if lasts_s is not None:
            self._log_in_at_s = time.monotonic() + lasts_s

    def _ask(self, api: Api[Q, R], version: int, request: Q) -> R:
        self._correlation_id += 1
        header = RequestHeader(api.key, version, self._correlation_id, self._client_id)
        frame = request_frame(api, header, encode_request(api, version, request))
        try:
            self._socket.sendall(frame)
            size = int.from_bytes(self._receive(4), "big", signed=True)
            if not 0 <= size <= (ANSWER_BYTES_MAX if self._is_in else STRANGER_BYTES_MAX):
                raise NotKafka(f"an answer of {size} bytes", self.place)
            answer = self._receive(size)
        except OSError as error:
            raise self._lost(error) from error
        try:
            correlation_id, at = decode_response_header(api, version, answer)
            if correlation_id != self._correlation_id:
                raise NotKafka(f"an answer to request {correlation_id}", self.place)
            return decode_response(api, version, answer[at:])
        except ProtocolError as error:
            raise NotKafka(f"no answer in Kafka's protocol: {error}", self.place) from error

    def _receive(self, size: int) -> memoryview:
        answer = memoryview(bytearray(size))
        got = 0
        while got < size:
            more = self._socket.recv_into(answer[got:], flags=self._receive_flags)
            if not more:
                raise ConnectionResetError("the broker closed the connection")
            got += more
        return answer

    def _lost(self, error: OSError) -> KafkaConnectionError:
        if isinstance(error, BlockingIOError | TimeoutError):  # the system's limit, or Python's
            return NoAnswer("no answer in time", self.place)
        entrance = self._entrance
        if entrance is not None and not self._is_in and entrance.is_refusal(error):
            return NotLetIn(f"the TLS handshake failed: {error}", self.place)
        return NoAnswer(f"no answer: {error.strerror or error}", self.place)
