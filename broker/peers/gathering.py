"""Questions to other brokers that travel together.

What comes for a broker while a request to it is in flight makes up its next request: so the load
makes the batch, and nothing waits for a batch to fill. Bound: `WAITING_MAX` questions per broker.
Every question gets an answer, what the caller says for a `PeerError` included.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from tailrace.broker.peers.errors import PeerBusy, PeerError, PeerLost
from tailrace.broker.peers.routes import Sender
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.kafka.api import Api

A = TypeVar("A")
Q = TypeVar("Q")
Request = TypeVar("Request")
Response = TypeVar("Response")

WAITING_MAX: Final = 2_000
"""Questions for one broker that may wait for the request in flight."""

TIMEOUT_S: Final = 30.0
"""How long another broker may take; Kafka's request.timeout.ms."""

AskAll: TypeAlias = Callable[[int, Sequence[Q]], Awaitable[Sequence[A]]]
"""Asks a broker several questions at once; one answer for each. Errors: PeerError."""


def one_request(
    peers: Sender,
    api: Api[Request, Response],
    version_min: int,
    request_of: Callable[[Sequence[Q]], Request],
    answers_in: Callable[[Response, Sequence[Q]], Sequence[A]],
) -> AskAll[Q, A]:
    """Return how several questions are asked by one request."""

    async def ask_all(broker_id: int, questions: Sequence[Q]) -> Sequence[A]:
        response = await peers.send(broker_id, api, request_of(questions), TIMEOUT_S, version_min)
        return answers_in(response, questions)

    return ask_all


class Gathered(Generic[Q, A]):
    """Questions of one kind, by broker. All calls come from the loop."""

    def __init__(
        self, name: str, at_once: int, ask_all: AskAll[Q, A], on_error: Callable[[Q, PeerError], A]
    ) -> None:
        """`at_once`: questions in one request. `on_error`: the answer where none came."""
        self._at_once = at_once
        self._ask_all = ask_all
        self._on_error = on_error
        self._tasks = Tasks(name)
        self._waiting: dict[int, list[_Asked[Q, A]]] = {}
        """A broker is in it as long as its task runs."""
        self._is_closed = False

    def ask(self, broker_id: int, question: Q) -> "asyncio.Future[A]":
        """Ask soon; the future gets an answer in any case."""
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(broker_id)
        if self._is_closed or (waiting is not None and len(waiting) >= WAITING_MAX):
            error = PeerBusy(f"broker {broker_id} is asked too much")
            answer.set_result(self._on_error(question, error))
        elif waiting is not None:
            waiting.append(_Asked(question, answer))
        else:
            self._waiting[broker_id] = [_Asked(question, answer)]
            self._tasks.start(self._work_off(broker_id), f"broker {broker_id}")
        return answer

    async def close(self) -> None:
        """Ask no more; who waits is answered as for a `PeerError`. Idempotent."""
        self._is_closed = True
        await self._tasks.close()

    async def _work_off(self, broker_id: int) -> None:
        waiting = self._waiting[broker_id]
        try:
            while waiting:
                batch = waiting[: self._at_once]
                del waiting[: len(batch)]
                await self._ask_batch(broker_id, batch)
        finally:
            del self._waiting[broker_id]
            self._settle(waiting, PeerLost("this broker ends"))

    async def _ask_batch(self, broker_id: int, batch: list["_Asked[Q, A]"]) -> None:
        try:
            answers = await self._ask_all(broker_id, [each.question for each in batch])
            for each, answer in zip(batch, answers, strict=True):
                if not each.answer.done():
                    each.answer.set_result(answer)
        except PeerError as error:
            self._settle(batch, error)
        finally:  # a bug, or the end of this broker: nobody waits for ever
            self._settle(batch, PeerLost("this broker gave up"))

    def _settle(self, asked: Sequence["_Asked[Q, A]"], error: PeerError) -> None:
        for question, answer in asked:
            if not answer.done():
                answer.set_result(self._on_error(question, error))


class _Asked(NamedTuple, Generic[Q, A]):
    question: Q
    answer: "asyncio.Future[A]"
