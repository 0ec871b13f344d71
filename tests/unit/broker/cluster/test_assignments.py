"""What a move is, and who stands in a lock."""

import pytest

from tailrace.broker.cluster.assignments import Move, broker_in_lock, lock_name, move_of


def test_a_lock_names_its_broker() -> None:
    assert lock_name(7, "h:9092") == "1;7;h:9092"
    assert broker_in_lock(lock_name(7, "[::1]:9092")) == 7


@pytest.mark.parametrize("name", ["", "host:1", "2;7;h:1", "1;;h:1", "1;x;h:1", "1"])
def test_others_are_no_brokers(name: str) -> None:
    assert broker_in_lock(name) is None


@pytest.mark.parametrize(
    ("replicas", "holder", "move"),
    [
        ((2,), None, None),
        ((2,), 2, None),
        ((2,), 1, Move((2, 1), (2,), (1,), 1)),
        ((2, 1), 1, Move((2, 1), (2,), (), 1)),
        ((2, 3), 1, Move((2, 3, 1), (2, 3), (1,), 1)),
    ],
)
def test_a_move_lasts_until_its_former_owner_lets_go(
    replicas: tuple[int, ...], holder: int | None, move: Move | None
) -> None:
    assert move_of(2, replicas, holder) == move
