import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.errors import CorruptData
from tailrace.core.metadata.namespace_binding import BKDLConfig, decode_binding, encode_binding
from tests.unit.core.metadata.golden_nodes import golden_nodes, vectors

PLAIN = BKDLConfig(bk_zk_servers="zk:2181", bk_ledgers_path="/ledgers")
FULL = BKDLConfig(
    bk_zk_servers="zk:2181",
    bk_ledgers_path="/ledgers",
    encode_region_id=True,
    first_log_segment_seq_no=1,
    acl_root_path=".acl",
    federated_namespace=True,
)


@pytest.mark.parametrize(("config", "index"), [(PLAIN, 0), (FULL, 1)])
def test_java_vectors(config: BKDLConfig, index: int) -> None:
    data = vectors("A5")[index][1].replace("\\n", "\n").encode()
    assert encode_binding(config) == data
    assert encode_binding(decode_binding(data)) == data


def test_real_binding() -> None:
    data = golden_nodes()["/messaging/ns"].data
    binding = decode_binding(data)
    assert (binding.bk_zk_servers, binding.bk_ledgers_path) == ("127.0.0.1:2282", "/ledgers")
    assert encode_binding(binding) == data


def test_any_subset_and_order_is_read() -> None:
    data = b'1\nBKDL\n{"9":{"i64":5},"2":{"str":"/l"},"1":{"str":"z"}}'
    assert decode_binding(data) == BKDLConfig(
        bk_zk_servers="z", bk_ledgers_path="/l", first_log_segment_seq_no=5
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"2\nBKDL\n{}",
        b"1\nOTHER\n{}",
        b"1\nBKDL\n[]",
        b"1\nBKDL\n{",
        b'1\nBKDL\n{"1":{"str":"z"}}',
        b'1\nBKDL\n{"1":{"tf":1},"2":{"str":"/l"}}',
        b'1\nBKDL\n{"1":5,"2":{"str":"/l"}}',
        b"1\nBKDL\n\xff",
    ],
)
def test_bad_binding_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_binding(data)


def test_cut_binding_is_corrupt() -> None:
    data = encode_binding(FULL)
    for size in range(len(data)):
        with pytest.raises(CorruptData):
            decode_binding(data[:size])


@settings(max_examples=100)
@given(st.binary(max_size=100))
def test_random_bytes_are_corrupt(tail: bytes) -> None:
    for data in (tail, b"1\nBKDL\n" + tail):
        with pytest.raises(CorruptData):
            decode_binding(data)
