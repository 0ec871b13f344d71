"""Reading a stream through read proxies: Read calls, each behind the last record of the former.

A call that breaks, or a proxy that goes away, is followed by a call to another one that goes on
behind the last record that was taken, as the first one would have: none is missing and none comes
twice, also where the segment was truncated or rewritten. What a proxy sends again is left out here.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace.core.errors import ReadCancelled
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.methods import READ_PROXY
from tailrace.protocol.proxy.read_proxy_pb2 import (
    LogRecord,
    ReadRequest,
    ReadResponse,
)
from tailrace.proxy.client.caller import Asked
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.errors import proxy_error
from tailrace.proxy.client.messages import code_of, dlsn_message, dlsn_of
from tailrace.proxy.client.proxies import Proxies
from tailrace.proxy.client.reactions import Attempts, Then, Trouble
from tailrace.proxy.client.transport import Call, CallFailed
from tailrace.proxy.owner.codes import StatusCode

if TYPE_CHECKING:
    from tailrace.proxy.routing.ring import Host

_READ = READ_PROXY.methods["read"]


class RecordReader:
    """Reads one stream from one place on. One caller at a time. All calls come from the loop.

    It holds the records of two answers, each 64 KiB or one record; gRPC's windows hold some more.
    """

    def __init__(
        self,
        stream: str,
        proxies: Proxies,
        config: ClientConfig,
        clock: Clock,
        *,
        start: DLSN | int | None,
        tails: bool,
    ) -> None:
        """`start`: a position, a txid, or None: the oldest record. `tails`: wait at the tail."""
        self.stream = stream
        self._proxies = proxies
        self._config = config
        self._clock = clock
        self._tails = tails
        self._start = start
        self._last: DLSN | None = None
        """Of the last record that was taken from a call."""
        self._behind = ReadRequest.Behind()
        """The same for a proxy; empty without one."""
        self.ready: deque[LogRecord] = deque()
        """Records that were taken and not given out."""
        self.is_at_end = False
        """Whether nothing follows: a reader that does not wait is at the tail."""
        self._call: Call | None = None
        self._answer: Asked | None = None
        self._receiving: asyncio.Task[None] | None = None
        """Outlives a caller that is cancelled, so its answer is not lost."""
        self._tasks = Tasks("proxy_client.reader")
        self._host: Host | None = None
        self._attempts = Attempts()
        self._redirect: Host | None = None
        self._since_s: float | None = None
        """Since when nothing was answered; None: the last call is well."""
        self._is_closed = False

    async def fill(self) -> None:
        """Have records in `ready`, or `is_at_end`.

        Errors: ProxyError, also when no proxy has answered for `delivery.timeout.ms`; ReadCancelled
        once closed. An error ends nothing: the next call goes on behind the last record.
        Cancel: nothing is lost.
        """
        while not self.ready and not self.is_at_end:
            if self._is_closed:
                raise ReadCancelled("the reader is closed")
            if self._call is None:
                await self._open()
            else:
                await self._receive(self._call)

    async def close(self) -> None:
        """End it; a call that waits raises ReadCancelled. Idempotent. Errors: none."""
        self._is_closed = True
        self.ready.clear()
        self._end_call()
        await self._tasks.close()

    # ------------------------------------------------------------------ calls

    async def _open(self) -> None:
        """Begin a call, if a proxy is there."""
        host, wait_ms = self._proxies.choose(self.stream, self._attempts, self._redirect)
        self._redirect = None
        if wait_ms:
            await asyncio.sleep(wait_ms / 1000)
        if host is None:
            self._attempts.tries += 1
            self._check_time("no proxy is known")
            return
        self._attempts.begin(host)
        self._host = host
        try:
            call = await self._proxies.transport.open(host, _READ)
        except CallFailed as error:
            self._react(Asked(error.trouble, str(error)))
            return
        self._call, self._answer, self._receiving = call, None, None
        self._tasks.start(self._ask(call), "ask")

    async def _ask(self, call: Call) -> None:
        try:
            await call.send(self._request())
            await call.done_sending()
        except CallFailed:
            call.cancel()  # `receive` raises why

    def _request(self) -> ReadRequest:
        start = self._start
        request = ReadRequest(stream=self.stream, tail=self._tails)
        if self._last is not None:
            request.behind.CopyFrom(self._behind)
        elif isinstance(start, DLSN):
            request.dlsn.CopyFrom(dlsn_message(start))
        elif start is not None:
            request.transaction_id = start
        else:
            request.edge = ReadRequest.OLDEST
        return request

    async def _receive(self, call: Call) -> None:
        """Take one answer from the call."""
        if self._receiving is None:
            self._receiving = self._tasks.spawn(self._receive_one(call), "receive")
        await asyncio.wait([self._receiving])
        if self._call is not call:
            return  # closed since
        asked, self._answer, self._receiving = self._answer, None, None
        assert asked is not None, "the task leaves an answer"
        if asked.answer is not None:
            self._take(asked.answer)
        if asked.outcome is not StatusCode.SUCCESS:
            self._react(asked)
        elif asked.answer is None:
            self._end_call()
            self.is_at_end = True

    async def _receive_one(self, call: Call) -> None:
        within_s = None if self._tails else self._config.rpc_timeout_ms / 1000
        try:
            async with asyncio.timeout(within_s):
                answer: Any = await call.receive()
        except CallFailed as error:
            self._answer = Asked(error.trouble, str(error))
        except TimeoutError:
            self._answer = Asked(Trouble.TIMED_OUT, f"{within_s} s went by")
        else:
            self._answer = self._asked(answer)

    def _asked(self, answer: ReadResponse | None) -> Asked:
        if answer is not None:
            header = answer.header
            return Asked(code_of(header), header.error, header.location, answer)
        if self._tails:
            return Asked(Trouble.BROKEN, "the proxy ended the call")
        return Asked(StatusCode.SUCCESS, "")

    # ------------------------------------------------------------------ answers

    def _take(self, answer: ReadResponse) -> None:
        behind, last = self._behind, self._last
        is_other = answer.ledger_id != behind.ledger_id
        txid, taken = behind.transaction_id, behind.taken
        for record in answer.records:
            dlsn = dlsn_of(record.dlsn)
            if is_other or last is None or dlsn > last:
                last = dlsn
                taken = taken + 1 if record.transaction_id == txid else 1
                txid = record.transaction_id
                self.ready.append(record)
        if last is not None and last != self._last:
            self._last = last
            self._behind = ReadRequest.Behind(
                dlsn=dlsn_message(last),
                transaction_id=txid,
                ledger_id=answer.ledger_id,
                taken=taken,
            )
        if code_of(answer.header) is StatusCode.SUCCESS:
            self._attempts, self._since_s = Attempts(), None

    def _react(self, asked: Asked) -> None:
        """Have another call later, or raise what the answer means. Errors: ProxyError.

        With records at hand nothing is raised: they are given out first, and the answer comes
        again.
        """
        self._end_call()
        host = self._host
        assert host is not None, "a host has answered"
        outcome = asked.outcome
        reaction = self._proxies.learn(self.stream, outcome, host, self._attempts, asked.location)
        if reaction.then is not Then.FAIL:
            self._redirect = reaction.host
            self._check_time(f"{outcome.name}: {asked.text}")
            return
        self._attempts = Attempts()
        if not self.ready:
            raise proxy_error(outcome, asked.text, self.stream, host)

    def _check_time(self, last: str) -> None:
        """Raise if nothing was answered for too long. Errors: ProxyError."""
        now_s = self._clock.monotonic_s()
        since_s = self._since_s = self._since_s or now_s
        limit_ms = self._config.request_timeout_ms
        if now_s - since_s >= limit_ms / 1000 and not self.ready:
            self._since_s = None
            text = f"nothing was answered for {limit_ms} ms; the last answer: {last}"
            raise proxy_error(None, text, self.stream, self._host)

    def _end_call(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        receiving, self._receiving = self._receiving, None
        if receiving is not None:
            receiving.cancel()
