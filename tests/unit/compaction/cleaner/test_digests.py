"""Digests of keys: one for each key, however it lies among others."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.compaction.cleaner.digests import LONG_BYTES, digest_keys

KEYS = st.binary(max_size=40) | st.integers(0, 3 * LONG_BYTES).map(bytes)
"""The second ones are zeros: their lengths alone tell them apart."""


@given(st.lists(KEYS, max_size=60))
def test_equal_keys_and_no_others_have_equal_digests(keys: list[bytes]) -> None:
    digests = [bytes(each) for each in digest_keys(keys)]
    assert len(set(digests)) == len(set(keys))
    assert len(set(zip(keys, digests, strict=True))) == len(set(keys))


@given(st.lists(KEYS, min_size=1, max_size=60))
def test_a_digest_does_not_depend_on_who_else_is_asked_for(keys: list[bytes]) -> None:
    together = digest_keys(keys)
    for key, digest in zip(keys, together, strict=True):
        assert bytes(digest_keys([key])[0]) == bytes(digest)


def test_every_byte_counts() -> None:
    for size in (1, 3, 4, 15, 16, 17, 64, 65, LONG_BYTES, LONG_BYTES + 1):
        keys = [bytes(size)] + [
            bytes(1 << bit if at == place else 0 for at in range(size))
            for place in range(size)
            for bit in (0, 7)
        ]
        assert len({bytes(each) for each in digest_keys(keys)}) == len(keys)


def test_more_keys_than_go_through_at_once() -> None:
    keys = [b"%d" % number for number in range(10_000)]
    assert len({bytes(each) for each in digest_keys(keys)}) == len(keys)


def test_nothing() -> None:
    assert digest_keys([]).shape == (0, 2)
