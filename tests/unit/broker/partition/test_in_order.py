"""Places of a partition: each has its turn once, in the order in which it was taken."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.partition.appends import Append
from tailrace.broker.partition.in_order import AT_ONCE, InOrder, Place
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.loops import in_loop, turns

CALLS = st.one_of(
    st.just("hold"), st.just("behind"), st.tuples(st.just("ready"), st.integers(0, 5))
)


@given(st.lists(CALLS, max_size=40))
def test_turns_come_in_order_whenever_what_is_held_gets_ready(
    calls: list[str | tuple[str, int]],
) -> None:
    """The oracle: the longest beginning of all places that are ready."""

    @in_loop
    async def check() -> None:
        order, ran = InOrder(), []
        held: list[tuple[int, Place]] = []
        ready: list[bool] = []

        def noting(number: int) -> Callable[[], None]:
            def run() -> None:
                assert not order.is_busy  # it appends at once
                ran.append(number)

            return run

        for each in calls:
            if each == "hold":
                held.append((len(ready), order.hold()))
                ready.append(False)
            elif each == "behind" and order.is_busy:
                order.behind(noting(len(ready)))
                ready.append(True)
            elif isinstance(each, tuple) and held:
                number, place = held.pop(each[1] % len(held))
                ready[number] = True
                order.ready(place, noting(number))
            done = ready.index(False) if False in ready else len(ready)
            assert ran == list(range(done))
            assert order.is_busy == (done < len(ready))

    check()


@in_loop
async def test_what_stands_for_an_append_settles_when_who_waits_may_append_in_turn() -> None:
    """Whoever hears of the first, and appends at once, must not overtake the others."""
    order = InOrder()
    place = order.hold()
    appended: list[str] = []

    def append(name: str) -> Append:
        if order.is_busy:
            return order.later(lambda: append(name))
        appended.append(name)
        return Append.answered(ErrorCode.NONE)

    first = append("first")
    append("second")
    first.add_done_callback(lambda _: append("third"))
    order.ready(place, lambda: None)
    await turns()
    assert appended == ["first", "second", "third"]


@in_loop
async def test_many_have_their_turn_in_several_steps_and_in_order() -> None:
    order = InOrder()
    place, ran = order.hold(), []
    for number in range(3 * AT_ONCE):
        order.behind(lambda number=number: ran.append(number))  # type: ignore[misc]
    turn = order.turn()
    order.ready(place, lambda: None)
    assert len(ran) == AT_ONCE - 1
    order.behind(lambda: ran.append(-1))
    await turn
    await turns()
    assert ran == [*range(3 * AT_ONCE), -1]
    assert not order.is_busy
