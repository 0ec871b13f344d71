"""What must hold of streams behind proxies, heard from outside: at each proxy's door, from clients,
from readers, and from the streams themselves at the end.

Each record names its writer and its number, so each payload is sent by one writer only. A *try* is
one request that a proxy took with this payload in it. What a proxy answers is heard where it is
given, also when it gets lost on its way.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import Message
from typing_extensions import override

from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.common_pb2 import ResponseHeader
from tailrace.protocol.proxy.methods import Method
from tailrace.proxy.client.messages import code_of, dlsn_of
from tailrace.proxy.owner.codes import StatusCode
from tailrace.simulation.logs.checker import LogModel
from tailrace.simulation.world import World
from tests.sim.proxies.occurrences import Occurrences
from tests.sim.proxies.wire import Door, SimCall

NOT_WRITTEN: Final = frozenset(
    {
        StatusCode.FOUND,
        StatusCode.OVER_CAPACITY,
        StatusCode.TOO_MANY_STREAMS,
        StatusCode.SERVICE_UNAVAILABLE,
        StatusCode.REGION_UNAVAILABLE,
        StatusCode.TOO_LARGE_RECORD,
        StatusCode.REQUEST_DENIED,
        StatusCode.END_OF_STREAM,
        StatusCode.LOG_NOT_FOUND,
        StatusCode.INVALID_STREAM_NAME,
        StatusCode.WRITE_CANCELLED_EXCEPTION,
        StatusCode.CHECKSUM_FAILED,
        StatusCode.NOT_IMPLEMENTED,
        StatusCode.TRANSACTION_OUT_OF_ORDER,
    }
)
"""Codes that say that nothing was written (proxy/owner/DESIGN.md)."""


@dataclass(slots=True, eq=False)
class Try:
    """One record in one request that a proxy took."""

    proxy: str
    is_numbered: bool = False
    is_behind: bool = False
    """Whether the call had others before it that were not answered."""
    code: StatusCode | None = None
    """What it answered; None: nothing (yet)."""
    dlsn: DLSN | None = None

    @override
    def __str__(self) -> str:
        return f"{self.proxy}: {self.code and self.code.name} {self.dlsn}"

    @property
    def may_have_written(self) -> bool:
        return self.code not in NOT_WRITTEN


@dataclass(slots=True)
class _Record:
    """One payload."""

    writer: str
    number: int
    is_numbered: bool
    """Whether its writer numbers its records, so that none is written twice."""
    tries: list[Try] = field(default_factory=list)
    is_refused: bool = False
    """Whether its client was told for certain that it is not written."""


class StreamModel:
    """One stream as everything outside knows it."""

    def __init__(self, checker: "ProxyChecker", name: str, paths: LogPaths) -> None:
        self.name = name
        self.paths = paths
        self.records: dict[bytes, _Record] = {}
        self.seen: dict[DLSN, bytes] = {}
        """What any reader was given."""
        self.runs: list[tuple[str, list[DLSN]]] = []
        """What each reader was given, in its order."""
        self.truncated = DLSN(0, 0, 0)
        """Records before it may be gone."""
        self.acked: dict[str, tuple[int, DLSN]] = {}
        """Each writer's last number that its client was given a position for."""
        self.writes = 0
        self.owners: dict[int, str] = {}
        """Segment -> the proxy's process that acknowledged records in it, of those without numbers:
        others may be acknowledged by a later owner."""
        self._checker = checker
        self._log = LogModel(checker.world, name, paths)

    def expect(self, holds: bool, what: str) -> None:
        self._checker.world.checker.expect(holds, f"stream {self.name}: {what}")

    # Writers

    def on_submit(self, writer: str, number: int, payload: bytes, *, is_numbered: bool) -> None:
        """Take note that a client begins to write a record."""
        self.records[payload] = _Record(writer, number, is_numbered)

    def on_written(self, payload: bytes, dlsn: DLSN | None) -> None:
        """Take note that a client was told that its record is there, and where."""
        record = self.records[payload]
        self.writes += 1
        successes = [one for one in record.tries if one.code is StatusCode.SUCCESS]
        self.expect(bool(successes), f"{payload[:30]!r} was acknowledged by no proxy")
        if dlsn is None:
            return
        self.expect(
            any(one.dlsn == dlsn for one in successes),
            f"{payload[:30]!r} was acknowledged at {dlsn}, which no proxy said",
        )
        last = self.acked.get(record.writer)
        self.expect(
            last is None or (last < (record.number, dlsn) and last[1] < dlsn),
            f"{record.writer} was given {dlsn} for {record.number} after {last}",
        )
        self.acked[record.writer] = (record.number, dlsn)

    def on_refused(self, payload: bytes) -> None:
        """Take note that a client was told that its record is certainly not written."""
        self.records[payload].is_refused = True

    # Proxies

    def on_try(self, proxy: str, payload: bytes) -> Try:
        record = self.records.get(payload)
        if record is None:
            self.expect(holds=False, what=f"{proxy} was sent {payload[:30]!r}, which no one wrote")
            return Try(proxy)
        one = Try(proxy, record.is_numbered)
        record.tries.append(one)
        return one

    def on_answer(self, one: Try, code: StatusCode, dlsn: DLSN | None) -> None:
        one.code, one.dlsn = code, dlsn
        if code is StatusCode.SUCCESS and dlsn is not None and not one.is_numbered:
            owner = self.owners.setdefault(dlsn.lssn, one.proxy)
            self.expect(
                owner == one.proxy, f"{one.proxy} acknowledged {dlsn}, in a segment of {owner}"
            )

    # Readers

    def new_run(self, reader: str) -> list[DLSN]:
        """Return the list that a reader's positions go to."""
        run: list[DLSN] = []
        self.runs.append((reader, run))
        return run

    def on_record(self, reader: str, run: list[DLSN], dlsn: DLSN, payload: bytes) -> None:
        known = self.seen.setdefault(dlsn, payload)
        self.expect(
            known == payload, f"{reader} got {payload[:30]!r} at {dlsn}, it was {known[:30]!r}"
        )
        self.expect(
            payload in self.records, f"{reader} got {payload[:30]!r} at {dlsn}, which no one wrote"
        )
        self.expect(
            not run or run[-1] < dlsn, f"{reader} went to {dlsn} from {run[-1] if run else None}"
        )
        run.append(dlsn)

    # The end

    def check(self, segments: Sequence[SegmentMetadata], whole: Iterable[DLSN]) -> None:
        """Hold all that was heard against the stream at rest. `whole`: a direct reader's run."""
        kept = list(whole)
        self._check_runs()
        first = kept[0] if kept else self.truncated
        lost = [dlsn for dlsn in sorted(self.seen) if first <= dlsn and dlsn not in set(kept)]
        self.expect(not lost, f"read once, and gone: {lost[:5]}")
        gone = [dlsn for dlsn in self.seen if dlsn < first and dlsn >= self.truncated]
        self.expect(not gone, f"not truncated, and gone: {sorted(gone)[:5]}")
        copies: dict[bytes, list[DLSN]] = {}
        for dlsn, payload in sorted(self.seen.items()):
            copies.setdefault(payload, []).append(dlsn)
        for payload, record in self.records.items():
            self._check_record(payload, record, copies.get(payload, []))
        for segment in segments:
            self._check_segment(segment, first, kept)

    def _check_runs(self) -> None:
        """Each reader was given all that anything was given between its first and its last."""
        order = sorted(self.seen)
        at = {dlsn: number for number, dlsn in enumerate(order)}
        for reader, run in self.runs:
            numbers = [at[dlsn] for dlsn in run]
            between = order[numbers[0] : numbers[-1] + 1] if numbers else []
            missed = sorted(set(between).difference(run))
            self.expect(not missed, f"{reader} from {run[:1]} to {run[-1:]} missed {missed[:5]}")

    def _check_record(self, payload: bytes, record: _Record, copies: list[DLSN]) -> None:
        text = (
            f"{payload[:30]!r} {[(t.proxy, t.code and t.code.name, t.dlsn) for t in record.tries]}"
        )
        said = {t.dlsn for t in record.tries if t.code is StatusCode.SUCCESS and t.dlsn is not None}
        acked = [dlsn for dlsn in sorted(said) if dlsn >= self.truncated]
        missing = [dlsn for dlsn in acked if dlsn not in copies]
        self.expect(not missing, f"acknowledged, and not at {missing}: {text}, copies {copies}")
        most = sum(one.may_have_written for one in record.tries)
        self.expect(len(copies) <= most, f"{len(copies)} copies {copies} of {text}")
        self.expect(
            not (record.is_refused and copies), f"its client heard `not written` of {text} {copies}"
        )
        if record.is_numbered:
            self.expect(len(copies) <= 1, f"written twice, at {copies}: {text}")
            self.expect(len(said) <= 1, f"acknowledged at two places: {text}")
        else:
            sure = sum(t.code is StatusCode.SUCCESS for t in record.tries)
            self.expect(len(said) == sure, f"two requests have one position: {text}")

    def _check_segment(self, segment: SegmentMetadata, first: DLSN, kept: list[DLSN]) -> None:
        name = f"segment {segment.lssn}"
        self.expect(not segment.in_progress, f"{name} is still in progress")
        if segment.lssn > first.lssn:
            count = sum(dlsn.lssn == segment.lssn for dlsn in kept)
            self.expect(
                count == segment.record_count,
                f"{name} counts {segment.record_count} records and has {count}",
            )


_NO_HEADER: Final = ResponseHeader(code="SUCCESS")


class ProxyChecker:
    """All streams of one world (Ears)."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.streams: dict[str, StreamModel] = {}
        self.occurrences = Occurrences()
        self._open: dict[int, tuple[StreamModel, dict[int, list[Try]]]] = {}
        """Of each call that writes: its stream, and its requests that are not answered."""

    def add(self, name: str, paths: LogPaths) -> StreamModel:
        model = self.streams[name] = StreamModel(self, name, paths)
        return model

    def on_request(self, door: Door, call: int, method: Method, request: Message) -> None:
        hear = getattr(self, f"_on_{method.name}_request", None)
        if hear is not None:
            hear(door.process.name, call, request)

    def on_response(self, door: Door, call: SimCall, method: Method, response: Message) -> None:
        header: ResponseHeader = getattr(response, "header", _NO_HEADER)
        code = code_of(header)
        self.world.trace(door.process.name, "answers", f"{call.number} {code.name} {header.error}")
        if method.name in ("write", "write_bulk", "write_stream"):
            stream = self._open[call.number][0].name
            self.occurrences.on_answer(call, stream, code, header.location)
            getattr(self, f"_on_{method.name}_response")(call, code, response)

    def _on_write_request(self, proxy: str, call: int, request: Any) -> None:
        self._tries(proxy, call, request.stream, 0, [request.payload])

    def _on_write_bulk_request(self, proxy: str, call: int, request: Any) -> None:
        self._tries(proxy, call, request.stream, 0, request.payloads)

    def _on_write_stream_request(self, proxy: str, call: int, request: Any) -> None:
        if request.HasField("open"):
            self._open[call] = (self.streams[request.open.stream], {})
        else:
            name = self._open[call][0].name
            self._tries(proxy, call, name, request.records.id, request.records.payloads)

    def _tries(
        self, proxy: str, call: int, stream: str, number: int, payloads: Sequence[bytes]
    ) -> None:
        model, requests = self._open.setdefault(call, (self.streams[stream], {}))
        is_behind = bool(requests)
        requests[number] = [model.on_try(proxy, payload) for payload in payloads]
        for at, one in enumerate(requests[number]):
            one.is_behind = is_behind or at > 0

    def _on_write_response(self, call: SimCall, code: StatusCode, response: Any) -> None:
        model, requests = self._open.pop(call.number)
        dlsn = dlsn_of(response.dlsn) if response.HasField("dlsn") else None
        (one,) = requests[0]
        model.on_answer(one, code, dlsn)

    def _on_write_bulk_response(self, call: SimCall, code: StatusCode, response: Any) -> None:
        model, requests = self._open.pop(call.number)
        tries = requests[0]
        if code is not StatusCode.SUCCESS:
            for one in tries:
                model.on_answer(one, code, None)
            return
        for one, each in zip(tries, response.responses, strict=True):
            dlsn = dlsn_of(each.dlsn) if each.HasField("dlsn") else None
            model.on_answer(one, code_of(each.header), dlsn)

    def _on_write_stream_response(self, call: SimCall, code: StatusCode, response: Any) -> None:
        model, requests = self._open[call.number]
        if response.id == 0:
            return
        tries = requests.pop(response.id)
        dlsns = [dlsn_of(each) if each.ListFields() else None for each in response.dlsns]
        if code is StatusCode.SUCCESS:
            places = [*dlsns, *[None] * (len(tries) - len(dlsns))]
            for one, dlsn in zip(tries, places, strict=True):
                model.on_answer(one, code, dlsn)
            return
        for one, dlsn in zip(tries, dlsns, strict=False):
            model.on_answer(one, StatusCode.SUCCESS, dlsn)
        for one in tries[len(dlsns) : len(dlsns) + 1]:
            model.on_answer(one, code, None)
            self.occurrences.on_stopped(call, code, is_behind=one.is_behind and not one.is_numbered)
        if code in NOT_WRITTEN:  # else those behind it, in flight with it, are as open
            for one in itertools.chain(*requests.values()):
                model.on_answer(one, StatusCode.WRITE_CANCELLED_EXCEPTION, None)
