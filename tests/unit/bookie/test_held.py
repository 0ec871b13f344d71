"""What a full bookie holds already is added again without room, and nothing else is."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.bookie.app import OpenBookie
from tailrace.bookie.held import is_held
from tailrace.protocol.bookkeeper.digest import Digest, DigestType
from tailrace.protocol.bookkeeper.entry import pack_entry
from tailrace.protocol.bookkeeper.messages import AddRequest, StatusCode
from tests.unit.bookie.test_no_room import FullDisk
from tests.unit.bookie.world import L1, OTHER_KEY, add, ask, fence, open_small, read, run

HELD, OTHERS = StatusCode.EOK, StatusCode.EREADONLY


def pack(payload: bytes, digest: Digest, entry: int = 1, lac: int = 0, length: int = 9) -> bytes:
    return b"".join(pack_entry(L1, entry, lac, length, (payload,), digest))


@pytest.mark.parametrize("kind", list(DigestType))
def test_the_same_entry_is_held_whatever_lac_it_tells(kind: DigestType) -> None:
    digest = Digest(kind, b"password")
    stored = pack(b"payload", digest)
    assert is_held(L1, 1, stored, pack(b"payload", digest))
    verifiable = kind in (DigestType.CRC32, DigestType.CRC32C)
    assert is_held(L1, 1, stored, pack(b"payload", digest, lac=-1)) is verifiable
    assert not is_held(L1, 1, stored, pack(b"payloae", digest))
    assert not is_held(L1, 1, stored, pack(b"payload", digest, length=8))
    assert not is_held(L1, 1, stored, pack(b"payload", digest, entry=2))


@given(at=st.integers(0, 50), bit=st.integers(0, 7), lac=st.sampled_from([0, -1]))
def test_a_damaged_copy_is_not_held(at: int, bit: int, lac: int) -> None:
    digest = Digest(DigestType.CRC32C)
    stored = bytearray(pack(b"a payload 15 b.", digest))
    assert len(stored) == 51
    stored[at] ^= 1 << bit
    assert not is_held(L1, 1, bytes(stored), pack(b"a payload 15 b.", digest, lac=lac))


async def status(bookie: OpenBookie, request: AddRequest) -> StatusCode:
    answer = await ask(bookie, request)
    assert (answer.ledger_id, answer.entry_id) == (L1, request.entry_id)
    found: StatusCode = answer.status
    return found


@pytest.mark.parametrize("is_known_full", [True, False])
def test_a_full_bookie_takes_again_what_it_holds(tmp_path: Path, *, is_known_full: bool) -> None:
    """`is_known_full`: before the add, or by it."""

    async def story() -> None:
        files = FullDisk()
        bookie = await open_small(tmp_path, files)
        large = os.urandom(600_000)  # two of them need room that was not reserved before
        assert await status(bookie, add(L1, 0, large)) is StatusCode.EOK
        assert (await ask(bookie, fence(L1))).status is StatusCode.EOK
        files.suffixes = (".log",)
        if is_known_full:
            await bookie.look_at_disks()
        logs = tmp_path / "ledgers" / "current"
        before = [path.stat().st_size for path in logs.glob("*.log")]
        assert await status(bookie, add(L1, 0, large, lac=-1, recovery=True)) is HELD
        assert bookie.health.is_read_only
        assert await status(bookie, add(L1, 0, large, lac=5, recovery=True)) is HELD
        assert await status(bookie, add(L1, 0, large[1:] + b"x", recovery=True)) is OTHERS
        assert await status(bookie, add(L1, 1, large, recovery=True)) is OTHERS
        assert await status(bookie, add(L1, 0, large)) is OTHERS
        assert await status(bookie, add(L1, 0, large, key=OTHER_KEY, recovery=True)) is OTHERS
        assert [path.stat().st_size for path in logs.glob("*.log")] == before
        assert bookie.pending_bytes == 0
        await bookie.close()
        again = await open_small(tmp_path, files)
        await again.look_at_disks()
        assert await status(again, add(L1, 0, large, lac=-1, recovery=True)) is HELD
        assert (await ask(again, read(L1, 0))).status is StatusCode.EOK
        files.suffixes = ()
        await again.look_at_disks()
        assert await status(again, add(L1, 1, large, recovery=True)) is StatusCode.EOK
        await again.close()

    run(story)
