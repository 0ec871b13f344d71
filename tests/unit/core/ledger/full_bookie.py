"""A bookie in memory without room."""

from tailrace.bookie.held import is_held
from tailrace.protocol.bookkeeper.messages import AddRequest, Request, StatusCode
from tests.unit.core.ledger.fake_bookie import FakeBookie, Fault


def full(bookie: FakeBookie) -> Fault:
    """A bookie without room, as ours: it takes again what it holds."""

    def fault(request: Request) -> StatusCode | None:
        if not isinstance(request, AddRequest):
            return None
        ledger = bookie.ledgers.get(request.ledger_id)
        stored = ledger.entries.get(request.entry_id) if ledger is not None else None
        added = b"".join(request.body)
        holds = stored is not None and (is_held(request.ledger_id, request.entry_id, stored, added))
        return None if request.recovery and holds else StatusCode.EREADONLY

    return fault
