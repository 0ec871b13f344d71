"""Ledger metadata of all three formats, and cookies: byte for byte as BookKeeper 4.17.3's."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from tailrace.bookie.cookie import Cookie, format_cookie, parse_cookie
from tailrace.core.metadata.ledger_metadata import (
    Fragment,
    LedgerMetadata,
    LedgerState,
    decode_ledger,
    encode_ledger,
)
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.ids import BookieId
from tests.java.peers import LinePeer

pytestmark = pytest.mark.java

SAMPLES = 60


class MetadataPeer(LinePeer):
    """One JVM with BookKeeper's metadata classes; see bookkeeper/MetadataPeer.java."""

    def __init__(self) -> None:
        super().__init__("bookkeeper", "MetadataPeer")

    def ask(self, what: str, argument: str) -> str:
        answer = self.line(f"{what} {argument}")
        assert answer, "an empty line"
        assert not answer.startswith("!"), f"{what} {argument}: {answer}"
        return answer


@pytest.fixture(scope="module")
def peer() -> Iterator[MetadataPeer]:
    running = MetadataPeer()
    yield running
    running.close()


def words_of(metadata: LedgerMetadata) -> str:
    """The peer's words for a metadata."""
    closed = metadata.is_closed
    custom = ",".join(f"{k.encode().hex()}={v.hex()}" for k, v in metadata.custom.items())
    fragments = ",".join(
        f"{first}:{'|'.join(bookie.encode().hex() for bookie in ensemble)}"
        for first, ensemble in metadata.fragments
    )
    return ";".join(
        (
            str(metadata.format_version),
            str(metadata.ensemble_size),
            str(metadata.write_quorum),
            str(metadata.ack_quorum),
            metadata.state.name,
            str(metadata.last_entry_id if closed else -1),
            str(metadata.length if closed else 0),
            metadata.digest.name.replace("HMAC", "MAC"),
            metadata.password.hex() if metadata.has_digest else "-",
            "-" if metadata.ctime_ms is None else str(metadata.ctime_ms),
            str(metadata.ctoken),
            custom,
            fragments,
        )
    )


def sorted_custom(words: str) -> list[str]:
    parts = words.split(";")
    parts[11] = ",".join(sorted(parts[11].split(",")))
    return parts


def sample(random: Random, version: int) -> LedgerMetadata:
    """A metadata that a ledger of this format version can have."""
    ensemble_size = random.randint(1, 5)
    write_quorum = random.randint(1, ensemble_size)
    firsts = [0, *sorted(random.sample(range(1, 10_000), random.randint(0, 3)))]
    fragments = tuple(
        Fragment(
            first, tuple(BookieId(f"b{n}.x:31{n}") for n in random.sample(range(90), ensemble_size))
        )
        for first in firsts
    )
    state = random.choice(list(LedgerState))
    closed = state is LedgerState.CLOSED
    plain = LedgerMetadata(
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=write_quorum if version == 1 else random.randint(1, write_quorum),
        fragments=fragments,
        state=state,
        last_entry_id=random.randint(-1, 2**63 - 1) if closed else -1,
        length=random.randint(0, 2**63 - 1) if closed else 0,
        has_digest=False,
        format_version=version,
    )
    if version == 1:
        return plain
    keys = random.sample(
        ["application", "a b", "ключ", 'q"\\\n\t\x07\x7f', "z", ""], random.randint(0, 3)
    )
    return replace(
        plain,
        digest=random.choice(list(DigestType)),
        password=random.randbytes(random.choice((0, 3, 40))),
        custom={key: random.randbytes(random.randint(0, 9)) for key in keys},
        ctime_ms=random.choice((None, 1_795_250_810_771)),
        ctoken=random.choice((0, 1, 2**63 - 1)) if version == 3 else 0,
        has_digest=True,  # Java itself cannot write these formats without
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_ledger_metadata_is_written_as_java_does_and_read_alike(
    peer: MetadataPeer, version: int
) -> None:
    random = Random(version)
    for _ in range(SAMPLES):
        metadata = sample(random, version)
        node = encode_ledger(metadata)
        assert node.hex() == peer.ask("write", words_of(metadata)), metadata
        assert decode_ledger(node) == metadata
        assert list(decode_ledger(node).custom) == list(metadata.custom)
        assert sorted_custom(peer.ask("read", node.hex())) == sorted_custom(words_of(metadata))
        if len(metadata.custom) < 2:  # Java forgets their order when it reads
            assert peer.ask("again", node.hex()) == node.hex()


def test_every_byte_in_a_password_is_written_as_java_does(peer: MetadataPeer) -> None:
    metadata = replace(sample(Random(2), 2), has_digest=True, password=bytes(range(256)))
    node = encode_ledger(metadata)
    assert node.hex() == peer.ask("write", words_of(metadata))
    assert decode_ledger(node) == metadata


@pytest.mark.parametrize("version", [1, 2, 3])
def test_update_keeps_what_java_can_read(peer: MetadataPeer, version: int) -> None:
    metadata = replace(
        sample(Random(9), version), state=LedgerState.OPEN, last_entry_id=-1, length=0
    )
    for update in (metadata.in_recovery(), metadata.closed(41, 1234), metadata.closed(-1, 0)):
        node = encode_ledger(update)
        assert node.startswith(b"BookieMetadataFormatVersion\t%d\n" % version)
        assert sorted_custom(peer.ask("read", node.hex())) == sorted_custom(words_of(update))


@pytest.mark.parametrize(
    "cookie",
    [
        Cookie("127.0.0.1:3181", "/j", ("/l1",), "fe8b3948-3afb-427d-8141-6a68c04dd8ee"),
        Cookie("b:1", "/j1,/j2", ("/l1", "/l2", "/l 3"), "i"),
        Cookie("b:1", "/a'b\"c\\d\x07\x08\x0b\x0c\r", ("/ж", "/\x7f\x1f"), "i"),
    ],
    ids=["plain", "several", "odd"],
)
def test_cookie_is_written_as_java_does(peer: MetadataPeer, cookie: Cookie) -> None:
    text = format_cookie(cookie)
    assert peer.ask("cookie", text.hex()) == text.hex()
    assert parse_cookie(text) == cookie
