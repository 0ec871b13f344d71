"""Writes of one turn against a transport made of lists: in order, soon, and never too many kept."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.runtime.turn_writer import (
    ENOUGH_BYTES,
    ENOUGH_WRITES,
    KEPT_BYTES_MAX,
    TurnWriter,
)


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[bytes]] = []
        self.ended = ""
        self.unsent = 0

    def writelines(self, list_of_data: Sequence[bytes]) -> None:  # type: ignore[override]
        assert not self.ended
        self.writes.append([bytes(part) for part in list_of_data])

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"


def rig() -> tuple[Transport, TurnWriter]:
    transport = Transport()
    return transport, TurnWriter(transport, asyncio.get_running_loop())


async def turn() -> None:
    """Let this turn of the loop end."""
    await asyncio.sleep(0)


def test_first_of_a_turn_goes_at_once_and_the_others_together() -> None:
    async def story() -> None:
        transport, writer = rig()
        writer.write([b"a", b"b"])
        assert transport.writes == [[b"a", b"b"]]
        writer.write([b"c"])
        writer.write([b"d", b"e"])
        assert transport.writes == [[b"a", b"b"]]
        transport.unsent = 10
        assert writer.unsent_bytes == 13
        await turn()
        assert transport.writes == [[b"a", b"b"], [b"c", b"d", b"e"]]
        assert writer.unsent_bytes == 10
        writer.write([b"f"])
        assert transport.writes[2:] == [[b"f"]]
        await turn()
        assert transport.writes[2:] == [[b"f"]], "nothing was kept"

    asyncio.run(story())


def test_no_more_is_kept_than_the_limit() -> None:
    async def story() -> None:
        transport, writer = rig()
        writer.write([b"first"])
        writer.write([bytes(KEPT_BYTES_MAX - 1)])
        assert len(transport.writes) == 1
        writer.write([b"x"])
        assert list(map(len, transport.writes)) == [1, 2]
        assert writer.unsent_bytes == 0
        writer.write([b"y"])
        await turn()
        assert transport.writes[2] == [b"y"]

    asyncio.run(story())


def test_enough_writes_of_enough_bytes_do_not_wait_for_the_end_of_the_turn() -> None:
    def sent(writes: int, size: int) -> list[int]:
        transport, writer = rig()
        writer.write([b"first"])
        for _ in range(writes):
            writer.write([bytes(size)])
        return [sum(map(len, write)) for write in transport.writes[1:]]

    async def story() -> None:
        exact = ENOUGH_BYTES // ENOUGH_WRITES
        assert sent(ENOUGH_WRITES, exact) == [ENOUGH_BYTES]
        assert sent(ENOUGH_WRITES - 1, 2 * exact) == [], "few, and not many bytes"
        assert sent(ENOUGH_WRITES, exact - 1) == [], "many, and small"
        assert sent(ENOUGH_WRITES + 1, exact - 1) == [(ENOUGH_WRITES + 1) * (exact - 1)]
        twice = 2 * ENOUGH_BYTES
        assert sent(2 * ENOUGH_WRITES - 1, 2 * exact) == [twice], "each group counts from zero"
        assert sent(2 * ENOUGH_WRITES, 2 * exact) == [twice, twice]

    asyncio.run(story())


def test_close_sends_what_is_kept_and_abort_drops_it() -> None:
    async def story() -> None:
        for end, expected in (("closed", [[b"a"], [b"b"]]), ("aborted", [[b"a"]])):
            transport, writer = rig()
            writer.write([b"a"])
            writer.write([b"b"])
            (writer.close if end == "closed" else writer.abort)()
            assert writer.unsent_bytes == 0
            await turn()
            assert (transport.ended, transport.writes) == (end, expected)

    asyncio.run(story())


def test_nothing_is_written_to_a_transport_that_closed_by_itself() -> None:
    async def story() -> None:
        transport, writer = rig()
        writer.write([b"a"])
        writer.write([b"b"])
        transport.ended = "by the peer"
        await turn()
        assert transport.writes == [[b"a"]]
        assert writer.unsent_bytes == 0

    asyncio.run(story())


@given(st.lists(st.lists(st.binary(max_size=30_000), max_size=6), max_size=8))
def test_bytes_arrive_in_order_at_the_end_of_each_turn(turns: list[list[bytes]]) -> None:
    async def story() -> None:
        transport, writer = rig()
        sent = b""
        for writes in turns:
            for data in writes:
                writer.write([data[:3], data[3:]])
                sent += data
            await turn()
            assert b"".join(part for write in transport.writes for part in write) == sent

    asyncio.run(story())
