"""What a stream says in the end, against a plain reading of Kafka's rule: record offsets decide."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.replicated.newest import Newest, NewestValues

KEYS = st.sampled_from([b"a", b"b", b"c"])
PRODUCERS = st.integers(1, 3)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["plain", "delete"]), KEYS, st.just(-1)),
        st.tuples(st.just("pending"), KEYS, PRODUCERS),
        st.tuples(st.sampled_from(["commit", "abort"]), st.just(b""), PRODUCERS),
    ),
    max_size=40,
)


def naive(events: list[tuple[str, bytes, int]]) -> list[Newest]:
    """Play the events as a coordinator does that keeps each value with its record's offset."""
    visible: dict[bytes, int] = {}
    pending: dict[tuple[int, bytes], int] = {}
    for at, (kind, key, producer) in enumerate(events):
        if kind == "plain":
            visible[key] = at
        elif kind == "pending":
            pending[producer, key] = at
        elif kind == "delete":
            visible.pop(key, None)
            pending = {name: place for name, place in pending.items() if name[1] != key}
        else:
            for name in [name for name in pending if name[0] == producer]:
                place = pending.pop(name)
                if kind == "commit":
                    visible[name[1]] = max(visible.get(name[1], -1), place)
    found = [Newest(at, -1, key, b"%d" % at) for key, at in visible.items()]
    found += [Newest(at, name[0], name[1], b"%d" % at) for name, at in pending.items()]
    return sorted(found)


@given(EVENTS)
def test_the_end_of_any_stream(events: list[tuple[str, bytes, int]]) -> None:
    newest = NewestValues()
    for at, (kind, key, producer) in enumerate(events):
        if kind in ("commit", "abort"):
            newest.end(producer, is_commit=kind == "commit")
        else:
            newest.put(key, None if kind == "delete" else b"%d" % at, producer)
    expected = naive(events)
    assert [each[1:] for each in newest] == [each[1:] for each in expected]
