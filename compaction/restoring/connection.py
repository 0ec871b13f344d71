"""One connection to one broker: the project's own codec over a blocking socket.

confluent-kafka hands out records and not batches, so a reader learns of an end that compaction or
markers left empty by an event at the end of the log only, and every record is an object. Measured
2026-11-21 on 2 cores, 500,000 records of 100 bytes: see the bench suite "restore".
"""

import socket
import struct
from contextlib import closing
from typing import TypeVar

from compaction.restoring.errors import Refused, RestoreError, Transient
from protocol.errors import DecodeError
from protocol.kafka.api import Api
from protocol.kafka.apis import API_VERSIONS
from protocol.kafka.codec import decode_response, encode_request
from protocol.kafka.header import RequestHeader, decode_response_header, request_frame
from protocol.kafka.messages.api_versions import ApiVersionsRequest

Q = TypeVar("Q")
R = TypeVar("R")

ANSWER_BYTES_MAX = 512 * 1024 * 1024
"""A longer answer is none. An answer may exceed what was asked for by one batch of any size."""
CLIENT_ID = "tailrace-restore"


class Connection:
    """Requests and answers, one at a time, in the highest version that both sides speak.

    Errors of every method: Transient when the broker cannot be reached or does not answer in time.
    """

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self.place = f"{host}:{port}"
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._let_the_system_wait(timeout_s)
        except OSError as error:
            raise self._lost(error) from error
        try:
            asked = self._ask(API_VERSIONS, 0, ApiVersionsRequest())
        except (Transient, RestoreError):
            self._socket.close()
            raise
        self._latest = {each.api_key: each.max_version for each in asked.api_keys}

    def version(self, api: Api[Q, R]) -> int:
        """Return the version that `ask` uses. Errors: Refused if there is none."""
        version = min(self._latest.get(api.key, -1), api.versions[-1])
        if version < api.versions[0]:
            raise Refused(
                f"the broker does not serve {api.name} in version {api.versions[0]} or later",
                place=self.place,
                remedy="Apache Kafka 2.1 or later, or Tailrace",
            )
        return version

    def ask(self, api: Api[Q, R], request: Q) -> R:
        """Send a request and return its answer. Cost: record bytes are slices of the answer."""
        return self._ask(api, self.version(api), request)

    def close(self) -> None:
        """Close, also under the feet of a thread that waits for an answer. Idempotent."""
        with closing(self._socket):
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it was never connected, or is closed

    def _ask(self, api: Api[Q, R], version: int, request: Q) -> R:
        self._correlation_id += 1
        header = RequestHeader(api.key, version, self._correlation_id, CLIENT_ID)
        try:
            self._socket.sendall(request_frame(api, header, encode_request(api, version, request)))
            size = int.from_bytes(self._receive(4), "big", signed=True)
            if not 0 <= size <= ANSWER_BYTES_MAX:
                raise Refused(f"an answer of {size} bytes", place=self.place)
            frame = self._receive(size)
            correlation_id, at = decode_response_header(api, version, frame)
            if correlation_id != self._correlation_id:
                raise Refused(f"an answer to request {correlation_id}", place=self.place)
            return decode_response(api, version, frame[at:])
        except OSError as error:
            raise self._lost(error) from error
        except DecodeError as error:
            raise Refused(f"no answer in Kafka's protocol: {error}", place=self.place) from error

    def _let_the_system_wait(self, timeout_s: float) -> None:
        """Have one call receive a whole answer, without Python's lock.

        With Python's own timeout each piece of it is a call, after each of which a thread that
        folds keeps the lock for 5 ms: of 200 MB that were seconds.
        """
        seconds, part = divmod(timeout_s, 1)
        limit = struct.pack("ll", int(seconds), max(int(part * 1e6), 1))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._socket.settimeout(None)

    def _receive(self, size: int) -> memoryview:
        frame = memoryview(bytearray(size))
        got = 0
        while got < size:
            more = self._socket.recv_into(frame[got:], flags=socket.MSG_WAITALL)
            if not more:
                raise ConnectionResetError("the broker closed the connection")
            got += more
        return frame

    def _lost(self, error: OSError) -> Transient:
        return Transient(f"no answer: {error.strerror or error}", self.place)
