"""From what a request names to where its reader begins, as a direct reader would.

    edge, dlsn, transaction_id      a new reader
    behind                          the reader of an earlier call, which goes on

A position in what was truncated counts as the first record that is kept, one beyond the tail as the
tail: what comes before it there is left out. So all that wait at a tail wait in one feed.
"""

from tailrace.core.log.resume import Place, Resume
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import LedgerId, TxId
from tailrace.protocol.proxy.common_pb2 import Dlsn
from tailrace.protocol.proxy.read_proxy_pb2 import ReadRequest
from tailrace.proxy.reading.cursor import Start
from tailrace.proxy.reading.feed import Position
from tailrace.proxy.reading.message import NO_LEDGER, Part, place_behind
from tailrace.proxy.reading.stream_feeds import OLDEST, StreamFeeds


def request_problem(request: ReadRequest) -> str | None:
    """Return what is wrong with a request whatever its stream has; None: nothing."""
    if request.WhichOneof("start") == "edge" and request.edge not in ReadRequest.Edge.values():
        return f"edge {request.edge} is not known"
    behind = request.behind
    if request.HasField("behind") and (min(_dlsn(behind.dlsn)) < 0 or behind.taken < 1):
        return "`behind` needs the DLSN of a record, and how many of its number were taken"
    return None


async def find_start(stream: StreamFeeds, request: ReadRequest) -> Start:
    """Return where a reader begins; a request without a start begins at the oldest record.

    Errors: as Log.refresh, Log.find and Log.end; AlreadyTruncatedTransaction.
    Cost: nothing if a feed knows it; else a request to a quorum at the tail, a search for a txid.
    """
    await stream.log.refresh()
    kind = request.WhichOneof("start")
    if kind == "transaction_id":
        return await _at_txid(stream, request.transaction_id)
    if kind == "dlsn":
        return await _at_dlsn(stream, max(_dlsn(request.dlsn), OLDEST))
    if kind == "behind":
        return await _behind(stream, request.behind)
    if kind == "edge" and request.edge == ReadRequest.LATEST:
        return Start(Position(await stream.end()))
    return await _at_dlsn(stream, OLDEST)


def _dlsn(message: Dlsn) -> DLSN:
    return DLSN(message.log_segment_sequence_number, message.entry_id, message.slot_id)


async def _at_dlsn(stream: StreamFeeds, asked: DLSN) -> Start:
    return await _at(stream, Position(stream.place_of(stream.log.first_readable(asked))))


async def _behind(stream: StreamFeeds, behind: ReadRequest.Behind) -> Start:
    ledger_id = LedgerId(behind.ledger_id)
    place = place_behind(_dlsn(behind.dlsn), ledger_id, stream.log.segments)
    given = Resume(behind.transaction_id, behind.taken)
    return await _at(stream, Position(place, given))


async def _at(stream: StreamFeeds, position: Position) -> Start:
    """Return how a reader begins at a position: at the tail, if that is not there yet."""
    newest, dlsn = stream.log.segments.last, position.place.dlsn
    if newest is not None and dlsn.lssn < newest.lssn:
        return Start(position)
    end = await stream.end()
    if dlsn <= end.dlsn:
        return Start(position)
    return Start(Position(end), Part(Place(dlsn, NO_LEDGER)))


async def _at_txid(stream: StreamFeeds, txid: TxId) -> Start:
    log = stream.log
    oldest = stream.place_of(log.first_readable(OLDEST))
    part = Part(oldest, txid)
    known = stream.find_txid(txid)
    if known is not None:
        return Start(Position(known if known.dlsn >= oldest.dlsn else oldest), part)
    end = await stream.end()  # before the search: what comes after it may be what is wanted
    found = await log.find(txid)
    if found is None:
        return Start(Position(end), part)
    return Start(Position(Place(*found), txid=txid), part)
