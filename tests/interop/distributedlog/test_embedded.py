"""The embedded log, `tailrace.dlog`, and Apache's library on one log."""

import hashlib

import pytest

from tailrace import dlog
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.ours import Place
from tests.interop.distributedlog.records import check, payload

pytestmark = [pytest.mark.interop, pytest.mark.java]
COUNT = 100


def test_each_reads_what_the_other_writes(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        async with dlog.open_namespace(place.uri) as namespace:
            await namespace.create_log(name)
            assert await namespace.list_logs()
            async with namespace.open_log(name) as log:
                async with log.open_writer() as writer:
                    ours = await writer.write_bulk(
                        (payload(f"1/{txid}"), txid) for txid in range(1, COUNT + 1)
                    )
                    await writer.commit()
                    in_progress = await java.read(COUNT)
                theirs = await java.open_writer()
                ours += await theirs.write(1, COUNT + 1, COUNT)
                await theirs.close()
                async with log.open_writer() as writer:
                    assert writer.last_txid == 2 * COUNT
                    await writer.mark_end_of_stream()
                async with log.open_reader() as reader:
                    found = [record async for record in reader]
        seen = await java.read_to_end()
        check(in_progress, 1, range(1, COUNT + 1))
        check(seen, 1, range(1, 2 * COUNT + 1))
        assert in_progress == seen[:COUNT]
        assert [record.dlsn for record in found] == ours == [record.dlsn for record in seen]
        assert [record.txid for record in found] == [record.txid for record in seen]
        digests = [hashlib.sha256(record.payload).hexdigest() for record in found]
        assert digests == [record.digest for record in seen]
        assert [record.sequence_id for record in found] == list(range(2 * COUNT))

    run(story)
