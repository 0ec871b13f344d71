"""Records above BookKeeper's default frame: Java's reader with larger frames, and without.

The place on Apache's bookies has none that take them, and says so to who writes.
"""

from typing import Final

import pytest

from tailrace.core.errors import NotEnoughBookies
from tailrace.core.log.config import RECORD_BYTES_MAX
from tailrace.core.log.log import Log
from tailrace.core.log.namespace import LogNamespace
from tailrace.protocol.bookkeeper.entry import FRAME_BYTES_LIMIT
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.ours import Listener, Place, our_logs, put
from tests.interop.distributedlog.records import check

pytestmark = [pytest.mark.interop, pytest.mark.java]

MIB: Final = 1 << 20
LARGE_FRAMES: Final = {"bkc.nettyMaxFrameSizeBytes": FRAME_BYTES_LIMIT}
SEED: Final = 3


async def opened(logs: LogNamespace, name: str) -> Log:
    await logs.create_log(name)
    return await logs.open_log(name)


@pytest.mark.parametrize("size", [6 * MIB, 20 * MIB], ids=["6-mib", "20-mib"])
def test_java_reads_large_records_where_its_frames_are_as_large(
    place: Place, opener: Opener, name: str, size: int
) -> None:
    """Without `bkc.nettyMaxFrameSizeBytes` its client ends the connection at each such frame, logs
    TooLongFrameException and asks again, so its reader waits in front of the record.
    """

    async def story() -> None:
        async with our_logs(place, record_bytes_max=size, waiting_bytes_max=2 * size) as ours:
            log = await opened(ours, name)
            writer = await log.open_writer(Listener())
            if "apache" in place.path:
                writer.append(1, (bytes(size),), size)
                with pytest.raises(NotEnoughBookies, match="nettyMaxFrameSizeBytes"):
                    await writer.flush()
                return
            await put(writer, SEED, 1, 2, size=size)
            await writer.close()
        check(await opener(name, LARGE_FRAMES).read(2), SEED, [1, 2], size)

    run(story)


def test_what_every_bookie_takes_is_written_and_read_everywhere(
    place: Place, opener: Opener, name: str
) -> None:
    async def story() -> None:
        async with our_logs(place) as ours:
            log = await opened(ours, name)
            writer = await log.open_writer(Listener())
            await put(writer, SEED, 1, 2, size=RECORD_BYTES_MAX)
            await writer.close()
        check(await opener(name).read(2), SEED, [1, 2], RECORD_BYTES_MAX)

    run(story)
