from tailrace.core.ledger.bookie_client import BookieClient
from tests.unit.core.ledger.bookie_contract import BookieContract
from tests.unit.core.ledger.fake_bookie import FakeBookie


class TestFakeBookie(BookieContract):
    async def open_client(self) -> BookieClient:
        bookie = FakeBookie("b1")
        bookie.reads_batches = True
        return bookie
