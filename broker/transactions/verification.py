"""Asks a transaction's coordinator, here or at another broker, about partitions (KIP-890).

Who appends to a partition within a transaction has to know that the coordinator knows of it, else
nobody would end the transaction there. The coordinator may live at any broker.
Source: AddPartitionsToTxnManager.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from tailrace.broker.peers.errors import PeerError
from tailrace.broker.peers.gathering import Gathered, one_request
from tailrace.broker.peers.routes import Routes, Sender
from tailrace.broker.replicated.machine import Answer
from tailrace.broker.replicated.partitions import answer_now
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.metadata import VERSION_2
from tailrace.broker.transactions.peer_requests import (
    QUESTIONS_SINCE,
    Question,
    question_codes,
    questions_request,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import ADD_PARTITIONS_TO_TXN

AT_ONCE: Final = 500
"""Questions in one request to another broker."""

Codes: TypeAlias = Mapping[TopicPartition, ErrorCode]


class Here(Protocol):
    """The coordinator of this broker; `broker.transactions.TransactionCoordinator` is one."""

    @property
    def verifies(self) -> bool:
        """Whether partitions have to be in a transaction; else all are in any."""

    def partition_of(self, transactional_id: str, /) -> TopicPartition | None:
        """Return the partition of `__transaction_state` that an id lives in."""

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartition],
        client_version: int,
        /,
    ) -> Answer:
        """Take partitions into a transaction."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        /,
    ) -> "asyncio.Future[Codes]":
        """Say whether partitions are in a transaction."""


class Verification:
    """Questions to coordinators. All calls come from the loop."""

    def __init__(self, here: Here, routes: Routes, peers: Sender) -> None:
        self._here = here
        self._routes = routes
        ask_all = one_request(
            peers, ADD_PARTITIONS_TO_TXN, QUESTIONS_SINCE, questions_request, question_codes
        )
        self._remote = Gathered("verification", AT_ONCE, ask_all, self._on_error)

    def ask(self, question: Question) -> "asyncio.Future[Codes]":
        """Ask whoever coordinates the transaction. Never fails: a code per partition.

        Where partitions are taken in, it waits a while for the producer's former transaction.
        NETWORK_EXCEPTION: another broker gave no answer. COORDINATOR_NOT_AVAILABLE: there is none
        for this id now. Both may be tried again.
        """
        at = self._here.partition_of(question.transactional_id)
        needs_nobody = not question.adds and not self._here.verifies
        if needs_nobody or at is None or self._routes.is_mine(*at):
            return self._ask_here(question)
        owner = self._routes.owner(*at)
        if owner is None:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return per_partition(answer_now(code), question.partitions)
        return self._remote.ask(owner, question)

    async def close(self) -> None:
        """Ask no more. Idempotent."""
        await self._remote.close()

    def _ask_here(self, question: Question) -> "asyncio.Future[Codes]":
        name, producer_id, epoch, partitions, adds = question
        if not adds:
            return self._here.verify(name, producer_id, epoch, partitions)
        answer = self._here.add(name, Producer(producer_id, epoch), partitions, VERSION_2)
        return per_partition(answer, partitions)

    def _on_error(self, question: Question, _error: PeerError) -> Codes:
        return dict.fromkeys(question.partitions, ErrorCode.NETWORK_EXCEPTION)


def per_partition(answer: Answer, partitions: Sequence[TopicPartition]) -> "asyncio.Future[Codes]":
    """Return the answer for each partition, where it is one for all of them."""
    each: asyncio.Future[Codes] = asyncio.get_running_loop().create_future()

    def settle(done: Answer) -> None:
        result = done.result()
        if not each.done():
            each.set_result(
                dict.fromkeys(partitions, result) if isinstance(result, ErrorCode) else result
            )

    if answer.done():
        settle(answer)
    else:
        answer.add_done_callback(settle)
    return each
