"""Which consumers a leader sends to their rack: not those that came back soon."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.following import directions
from tailrace.broker.following.directions import KEPT_S, RETURN_S, Consumer, Directions


def consumer(port: int = 1) -> Consumer:
    return Consumer("10.0.0.1", port, bytes(16), 0)


def test_who_comes_back_soon_is_kept_for_a_while() -> None:
    sent = Directions()
    assert sent.may_send(consumer(), 100.0)
    assert sent.may_send(consumer(2), 101.0)  # another one
    assert not sent.may_send(consumer(), 101.0)
    assert not sent.may_send(consumer(), 100.9 + KEPT_S)
    assert sent.may_send(consumer(), 101.0 + KEPT_S)
    assert not sent.may_send(consumer(), 102.0 + KEPT_S)


def test_who_comes_back_late_chose_again() -> None:
    sent = Directions()
    for round_ in range(3):
        assert sent.may_send(consumer(), round_ * RETURN_S)


class Oracle:
    """Remembers everything that happened to one consumer."""

    def __init__(self) -> None:
        self.sent_at: list[float] = []
        self.returned_at: list[float] = []

    def may_send(self, now_s: float) -> bool:
        if any(at <= now_s < at + KEPT_S for at in self.returned_at):
            return False
        if any(at <= now_s < at + RETURN_S for at in self.sent_at):
            self.returned_at.append(now_s)
            return False
        self.sent_at.append(now_s)
        return True


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 20))))
def test_it_does_as_one_that_remembers_everything(steps: list[tuple[int, float]]) -> None:
    sent, oracles, now_s = Directions(), [Oracle() for _ in range(3)], 0.0
    for port, pause_s in steps:
        now_s += pause_s
        assert sent.may_send(consumer(port), now_s) is oracles[port].may_send(now_s)


def test_what_is_remembered_is_bounded() -> None:
    sent = Directions()
    for port in range(directions.CONSUMERS_MAX + 10):
        sent.may_send(consumer(port), 0.0)
    assert len(sent) == directions.CONSUMERS_MAX
    assert sent.may_send(consumer(0), 1.0)  # forgotten
