"""From what a request names to where its reader begins, as a direct reader would.

A position in what was truncated counts as the first record that is kept, one beyond the tail as the
tail: what comes before it there is left out. So all who wait at a tail wait in one feed.
"""

from tailrace.core.log.resume import Place
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import TxId
from tailrace.protocol.proxy.read_proxy_pb2 import ReadRequest
from tailrace.proxy.reading.cursor import Start
from tailrace.proxy.reading.feed import Position
from tailrace.proxy.reading.message import NO_LEDGER, Part
from tailrace.proxy.reading.stream_feeds import OLDEST, StreamFeeds


def request_problem(request: ReadRequest) -> str | None:
    """Return what is wrong with a request whatever its stream has; None: nothing."""
    if request.WhichOneof("start") == "edge" and request.edge not in ReadRequest.Edge.values():
        return f"edge {request.edge} is not known"
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
        asked = request.dlsn
        dlsn = DLSN(asked.log_segment_sequence_number, asked.entry_id, asked.slot_id)
        return await _at_dlsn(stream, max(dlsn, OLDEST))
    if kind == "edge" and request.edge == ReadRequest.LATEST:
        return Start(Position(await stream.end()))
    return await _at_dlsn(stream, OLDEST)


async def _at_dlsn(stream: StreamFeeds, asked: DLSN) -> Start:
    log = stream.log
    place = stream.place_of(log.first_readable(asked))
    newest = log.segments.last
    if newest is not None and place.dlsn.lssn < newest.lssn:
        return Start(Position(place))
    end = await stream.end()
    if place.dlsn <= end.dlsn:
        return Start(Position(place))
    return Start(Position(end), Part(Place(place.dlsn, NO_LEDGER)))


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
