from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import BookieUnavailable, EntryNotFound
from tailrace.core.ledger.lac_glimpse import LacGlimpse
from tailrace.core.ledger.long_poll import LongPoll, Outcome
from tailrace.core.ledger.schedule import Schedule
from tailrace.protocol.ids import BookieId


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    size = draw(st.integers(1, 5))
    write = draw(st.integers(1, size))
    ensemble = tuple(BookieId(f"b{i}") for i in range(size))
    return Schedule(ensemble, write, draw(st.integers(1, write)))


Answers = list[tuple[BookieId, str]]
KINDS = st.sampled_from(["entry", "lac", "empty", "absent", "failed"])


def tell(poll: LongPoll, bookie: BookieId, answer: str) -> BookieId | None:
    if answer == "entry":
        poll.on_entry()
        return None
    if answer == "absent":
        return poll.on_absent(bookie, EntryNotFound("x"))
    if answer == "failed":
        return poll.on_failure(BookieUnavailable("x"))
    return poll.on_lac(poll.entry_id - (answer == "empty"))


def proven(schedule: Schedule, entry_id: int, answers: Answers) -> Outcome:
    """What the answers so far prove, in the words of the module's docstring."""
    said = [answer for _, answer in answers]
    slack = len(schedule.ensemble) - schedule.ack_quorum
    write_set = schedule.write_bookies(entry_id)
    absent = [b for b, answer in answers if answer == "absent" and b in write_set]
    for is_proven, outcome in (
        ("entry" in said, Outcome.ENTRY),
        ("lac" in said, Outcome.ADVANCED),
        (said.count("empty") > slack, Outcome.EMPTY),
        (len(absent) > slack, Outcome.ABSENT),
        (len(said) == len(schedule.ensemble) and set(said) == {"empty"}, Outcome.EMPTY),
        (len(said) == len(schedule.ensemble), Outcome.FAILED),
    ):
        if is_proven:
            return outcome
    return Outcome.PENDING


@given(schedules(), st.integers(0, 9), st.data())
def test_against_judging_all_answers_anew(
    schedule: Schedule, entry_id: int, data: st.DataObject
) -> None:
    order = tuple(data.draw(st.permutations(schedule.ensemble)))
    poll = LongPoll(schedule, entry_id, order)
    asked, answers = [poll.next()], Answers()
    while poll.outcome is Outcome.PENDING:
        if data.draw(st.booleans(), "silence"):
            asked += [bookie] if (bookie := poll.next()) else []
        outstanding = [b for b in asked if b not in dict(answers)]
        assert outstanding, "nobody is asked, and nothing is known"
        bookie = data.draw(st.sampled_from(outstanding))
        assert bookie is not None
        answer = data.draw(KINDS)
        following = tell(poll, bookie, answer)
        answers.append((bookie, answer))
        assert poll.outcome is proven(schedule, entry_id, answers)
        if following is not None:
            assert len(outstanding) == 1, "another one is asked while somebody may still answer"
            asked.append(following)
    assert poll.asked == order[: len(asked)] == tuple(asked)


def test_error_that_says_most_is_told() -> None:
    poll = LongPoll(
        Schedule((BookieId("a"), BookieId("b")), 2, 2), 0, (BookieId("a"), BookieId("b"))
    )
    assert poll.next() == "a"
    assert poll.on_failure(BookieUnavailable("x")) == "b"
    assert poll.on_lac(-1) is None
    assert poll.outcome is Outcome.EMPTY
    assert isinstance(poll.error, BookieUnavailable)


@given(
    st.lists(st.one_of(st.none(), st.just("failed"), st.integers(-1, 5)), min_size=1, max_size=5),
    st.integers(-1, 5),
)
def test_glimpse_against_looking_at_all(answers: list[object], known: int) -> None:
    glimpse = LacGlimpse(len(answers), known)
    for seen, answer in enumerate(answers, 1):
        if answer == "failed":
            is_done = glimpse.on_failure()
        else:
            assert answer is None or isinstance(answer, int)
            is_done = glimpse.on_answer(answer)
        lacs = [a for a in answers[:seen] if isinstance(a, int)]
        assert glimpse.lac == max([known, *lacs])
        assert is_done == (any(lac > known for lac in lacs) or seen == len(answers))
        hopeless = seen == len(answers) and all(a == "failed" for a in answers)
        assert glimpse.is_hopeless == hopeless
        if is_done:
            return
