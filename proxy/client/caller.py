"""One request, asked of one proxy after the other until it is answered or its time is over.

Source: DistributedLog DistributedLogClientImpl, AbstractWriteOp; reference 9.4.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from google.protobuf.message import Message

from tailrace.core.errors import Unavailable
from tailrace.protocol.proxy.methods import Method
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.errors import proxy_error
from tailrace.proxy.client.messages import code_of
from tailrace.proxy.client.proxies import Proxies
from tailrace.proxy.client.reactions import Attempts, Outcome, Then, react
from tailrace.proxy.client.transport import CallFailed
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.routing.ring import Host

Build: TypeAlias = Callable[[list[str]], Message]
"""Makes the request; it gets the hosts that were tried."""


class Asked(NamedTuple):
    """What one proxy answered."""

    outcome: Outcome
    text: str
    location: str = ""
    answer: Any = None


class Caller:
    """Asks the proxies of one service. All calls come from the loop."""

    def __init__(self, proxies: Proxies, config: ClientConfig) -> None:
        self._proxies = proxies
        self._config = config

    async def ask(
        self, method: Method, stream: str, build: Build, timeout_ms: int | None = None
    ) -> Any:
        """Return the answer that completes a request, or LOG_EMPTY's.

        Shape: a message of `method.response`. Unit: ms; None: `delivery.timeout.ms`.
        Errors: ProxyError. Cancel: what was asked may be done.
        Cost: one round trip, and one for each proxy that is asked before the right one.
        """
        attempts = Attempts()
        state = _Last()
        limit_ms = timeout_ms or self._config.request_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await self._ask(method, stream, build, attempts, state)
        except TimeoutError:
            last = state.asked
            cause = "no proxy is known" if last is None else f"{last.outcome.name}: {last.text}"
            text = f"not done within {limit_ms} ms; the last answer: {cause}"
            doubt = attempts.is_unknown or state.is_asking
            raise proxy_error(None, text, stream, state.host, is_unknown=doubt) from None

    async def _ask(
        self, method: Method, stream: str, build: Build, attempts: Attempts, last: "_Last"
    ) -> Any:
        redirect: Host | None = None
        while True:
            host, wait_ms = self._proxies.choose(stream, attempts, redirect)
            if wait_ms:
                await asyncio.sleep(wait_ms / 1000)
            if host is None:
                attempts.tries += 1
                continue
            request = build(attempts.tried_hosts)
            attempts.begin(host)
            last.host, last.is_asking = host, True
            asked = last.asked = await self.ask_once(method, host, request)
            last.is_asking = False
            outcome = asked.outcome
            reaction = self._proxies.learn(stream, outcome, host, attempts, asked.location)
            if reaction.then is Then.COMPLETE or outcome is StatusCode.LOG_EMPTY:
                return asked.answer
            if reaction.then is Then.FAIL:
                doubt = attempts.is_unknown
                raise proxy_error(outcome, asked.text, stream, host, is_unknown=doubt)
            redirect = reaction.host

    async def ask_once(self, method: Method, host: Host, request: Message) -> Asked:
        """Ask one proxy, within `request.timeout.ms`. Errors: none but cancel."""
        timeout_s = self._config.rpc_timeout_ms / 1000
        try:
            answer: Any = await self._proxies.transport.call(host, method, request, timeout_s)
        except CallFailed as error:
            return Asked(error.trouble, str(error))
        if "header" not in method.response.DESCRIPTOR.fields_by_name:
            return Asked(StatusCode.SUCCESS, "", answer=answer)
        header = answer.header
        return Asked(code_of(header), header.error, header.location, answer)

    def raise_if_refused(self, asked: Asked, stream: str, host: Host) -> None:
        """Raise for an answer that every proxy would give. Errors: ProxyError."""
        if react(asked.outcome, host, Attempts()).then is Then.FAIL:
            raise proxy_error(asked.outcome, asked.text, stream, host)


class _Last:
    """What a request that runs out of time has to tell."""

    def __init__(self) -> None:
        self.host: Host | None = None
        self.asked: Asked | None = None
        self.is_asking = False


def closed() -> Unavailable:
    """Return the error of a call after the client's end."""
    return Unavailable("the client is closed")
