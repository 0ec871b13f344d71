import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.metadata.layout import LEDGER_ID_MAX, LedgerPaths, LogPaths
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.core.metadata.golden_nodes import golden_nodes

PATHS = LedgerPaths()


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "/ledgers/00/0000/L0000"),
        (12345, "/ledgers/00/0001/L2345"),
        (2**31 - 2, "/ledgers/21/4748/L3646"),
        (2**31 - 1, "/ledgers/000/0000/0021/4748/L3647"),
        (481037146928, "/ledgers/000/0000/4810/3714/L6928"),
        (2**63 - 1, "/ledgers/922/3372/0368/5477/L5807"),
    ],
)
def test_ledger_paths(ledger_id: int, path: str) -> None:
    assert PATHS.ledger(LedgerId(ledger_id)) == path
    assert PATHS.ledger_id(path) == ledger_id


@given(st.integers(0, LEDGER_ID_MAX))
def test_every_id_has_its_own_path(ledger_id: int) -> None:
    assert PATHS.ledger_id(PATHS.ledger(LedgerId(ledger_id))) == ledger_id


@pytest.mark.parametrize("ledger_id", [-1, 2**63])
def test_impossible_ids(ledger_id: int) -> None:
    with pytest.raises(ValueError, match="not a ledger id"):
        PATHS.ledger(LedgerId(ledger_id))


@pytest.mark.parametrize(
    "path",
    [
        "/ledgers", "/ledgers/00/0000", "/ledgers/00/0000/0000", "/ledgers/00/0000/L000",
        "/ledgers/000/0000/0000/0000/L0000", "/other/00/0000/L0000", "/ledgers/LAYOUT",
        "/ledgers/00/0000/L٠٠٠٠", "/ledgers/L0000000001", "/ledgers/99/9999/L9999",
        "/ledgers/999/9999/9999/9999/L9999", "/ledgers/00/0000/L",
    ],
)  # fmt: skip
def test_other_nodes_are_no_ledgers(path: str) -> None:
    assert PATHS.ledger_id(path) is None


def test_golden_tree_has_ledgers_where_we_look() -> None:
    found = {i for i in map(PATHS.ledger_id, golden_nodes()) if i is not None}
    assert found == {*range(21), 481037146928}


def test_cluster_nodes_are_javas() -> None:
    bookie = BookieId("127.0.0.1:3481")
    golden = golden_nodes()
    for path in (
        PATHS.layout, PATHS.instance_id, PATHS.available, PATHS.read_only, PATHS.cookies,
        PATHS.idgen, PATHS.bookie(bookie), PATHS.cookie(bookie),
    ):  # fmt: skip
        assert path in golden
    assert PATHS.read_only_bookie(bookie) == "/ledgers/available/readonly/127.0.0.1:3481"
    assert PATHS.idgen_long == "/ledgers/idgen-long"


def test_new_log_is_javas() -> None:
    paths = LogPaths("/messaging/ns", "lay-live")
    golden = golden_nodes()
    for path, data in paths.initial_nodes():
        assert path in golden
        if golden[path].version == 0:
            assert golden[path].data == data
    assert paths.segment("inprogress_000000000000000001") in golden
    assert paths.lock in golden
    assert LogPaths("/messaging/ns", "lay-subs").subscribers in golden
