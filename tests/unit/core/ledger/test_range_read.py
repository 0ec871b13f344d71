"""Range reads against replicas that do anything, in virtual time, judged entry by entry."""

import asyncio
from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import BookieUnavailable, CoreError, CorruptData, EntryNotFound
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.config import ReadConfig
from tailrace.core.ledger.metrics import LedgerMetrics
from tailrace.core.ledger.range_read import RangeRead, ReadContext
from tailrace.core.ledger.replicas import Replicas
from tailrace.core.ledger.schedule import Schedules
from tailrace.protocol.bookkeeper.digest import Digest, DigestType
from tailrace.protocol.bookkeeper.entry import pack_entry
from tailrace.protocol.bookkeeper.messages import (
    ErrorResponse,
    OperationType,
    ReadRequest,
    ReadResponse,
    Request,
    StatusCode,
)
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.core.ledger.fake_bookie import Reply
from tests.unit.core.ledger.fast_world import InstantLoop

L1 = LedgerId(1)
DIGEST = Digest(DigestType.CRC32C)
WINDOW = 3
REQUEST_TIMEOUT_S = 5.0


class Act(NamedTuple):
    """What a bookie does with a read."""

    kind: str
    delay_s: float = 0.0


ACTS = st.one_of(
    st.just(Act("entry")),
    st.builds(Act, st.just("entry"), st.sampled_from([0.1, 1.0, 3.0])),
    st.builds(Act, st.sampled_from(["absent", "failed", "corrupt"]), st.sampled_from([0.0, 1.0])),
    st.just(Act("silent", REQUEST_TIMEOUT_S)),
)


class Bookie:
    """Acts by entry, in virtual time; a silent one is given up by its client's time-out."""

    reads_batches = False
    losses = 0

    def __init__(self, name: str, acts: dict[int, Act], board: "Board") -> None:
        self.bookie_id = BookieId(name)
        self._acts = acts
        self._board = board

    def submit(self, request: Request, reply: Reply) -> None:
        assert isinstance(request, ReadRequest)
        self._board.asked[request.entry_id, self.bookie_id] += 1
        act = self._acts[request.entry_id]
        asyncio.get_running_loop().call_later(act.delay_s, self._answer, act, request, reply)

    async def close(self) -> None:
        pass

    def _answer(self, act: Act, request: ReadRequest, reply: Reply) -> None:
        entry_id = request.entry_id
        if act.kind == "absent":
            reply(ReadResponse(StatusCode.ENOENTRY, L1, entry_id))
        elif act.kind == "silent":
            reply(ErrorResponse(StatusCode.LOCAL_TIMEOUT, OperationType.READ_ENTRY))
        elif act.kind == "failed":
            reply(ErrorResponse(StatusCode.LOCAL_UNAVAILABLE, OperationType.READ_ENTRY))
        else:
            payload = b"%d" % entry_id
            body = b"".join(pack_entry(L1, entry_id, -1, 0, (payload,), DIGEST))
            if act.kind == "corrupt":
                body = body[:-1] + b"?"
            reply(ReadResponse(StatusCode.EOK, L1, entry_id, body, -1))


class Board:
    """What the bookies saw."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[int, BookieId]] = Counter()


class Case(NamedTuple):
    size: int
    write_quorum: int
    entries: int
    acts: dict[str, dict[int, Act]]
    parallel: bool
    speculates: bool

    def replicas(self, entry_id: int) -> list[Act]:
        names = [f"b{(entry_id + i) % self.size}" for i in range(self.write_quorum)]
        return [self.acts[name][entry_id] for name in names]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = draw(st.integers(1, 4))
    count = draw(st.integers(1, 8))
    acts = {
        f"b{i}": dict(enumerate(draw(st.lists(ACTS, min_size=count, max_size=count))))
        for i in range(size)
    }
    flags = draw(st.booleans()), draw(st.booleans())
    return Case(size, draw(st.integers(1, size)), count, acts, *flags)


class Result(NamedTuple):
    found: list[bytes] | type[CoreError]
    took_s: float
    board: Board


def read(case: Case) -> Result:
    async def main() -> Result:
        board = Board()
        bookies = [Bookie(name, acts, board) for name, acts in case.acts.items()]
        ensemble = tuple(bookie.bookie_id for bookie in bookies)
        config = ReadConfig(speculative_timeout_ms=2000 if case.speculates else 0)
        replicas = Replicas(LocalBookies(bookies), config)
        schedules = Schedules([(0, ensemble)], case.write_quorum, 1)
        context = ReadContext(
            L1, DIGEST, schedules, replicas, WINDOW, LedgerMetrics(),
            lambda entry_id: replicas.order(schedules.of(entry_id).write_bookies(entry_id)),
            lambda entry_id, bookie, status: replicas.on_failure(bookie, status),
        )  # fmt: skip
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        reading = RangeRead(context, 0, case.entries - 1, parallel=case.parallel)
        try:
            entries = await reading.start()
        except CoreError as error:
            found: list[bytes] | type[CoreError] = type(error)
        else:
            found = [bytes(entry.payload) for entry in entries]
        took_s = loop.time() - start_s
        await asyncio.sleep(60)  # late answers and timers do no harm
        return Result(found, took_s, board)

    with asyncio.Runner(loop_factory=InstantLoop, debug=True) as runner:
        return runner.run(main())


ERRORS = {
    "corrupt": CorruptData,
    "failed": BookieUnavailable,
    "silent": BookieUnavailable,
    "absent": EntryNotFound,
}


def lost_error(replicas: list[Act]) -> type[CoreError]:
    """The error of an entry that no replica gives: what says most."""
    kinds = {act.kind for act in replicas}
    return next(error for kind, error in ERRORS.items() if kind in kinds)


@given(cases())
def test_range_reads_find_what_any_replica_has(case: Case) -> None:
    result = read(case)
    lost = [e for e in range(case.entries) if all(a.kind != "entry" for a in case.replicas(e))]
    if lost:
        # Which entry is given up first is a matter of time; its error is its own.
        assert result.found in {lost_error(case.replicas(entry_id)) for entry_id in lost}
    else:
        assert result.found == [b"%d" % i for i in range(case.entries)]
    assert all(count == 1 for count in result.board.asked.values()), "a replica was asked twice"
    # No entry waits longer than for all its replicas, one after the other.
    assert result.took_s <= case.entries * case.write_quorum * REQUEST_TIMEOUT_S


@given(cases())
def test_quick_replicas_hide_slow_ones(case: Case) -> None:
    """One replica that answers at once is the most that an entry waits for, by speculation."""
    for entry_id in range(case.entries):
        case.acts[f"b{(entry_id + case.write_quorum - 1) % case.size}"][entry_id] = Act("entry")
    result = read(case)
    assert result.found == [b"%d" % i for i in range(case.entries)]
    if case.parallel:
        assert result.took_s == 0
