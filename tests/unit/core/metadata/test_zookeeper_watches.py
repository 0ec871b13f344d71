from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.metadata.store import Watch, WatchEvent
from tailrace.core.metadata.watches import Fired
from tailrace.core.metadata.zookeeper_watches import ABSENT, SessionWatches

PATHS = ["/a", "/a/b", "/c"]


def _watch(_: int) -> Watch:
    def watch(_path: str, _event: WatchEvent) -> None:
        raise AssertionError("nobody calls it here")

    return watch


WATCHES = [_watch(i) for i in range(3)]


class DumbWatches:
    """Every watch on its own, looked for one by one."""

    def __init__(self) -> None:
        self.set: dict[tuple[str, str, Watch], int] = {}

    def add(self, kind: str, path: str, watch: Watch, zxid: int) -> None:
        first = [z for (k, p, _), z in self.set.items() if (k, p) == (kind, path)]
        self.set[kind, path, watch] = first[0] if first else zxid

    def fire(self, kinds: str, path: str, event: WatchEvent) -> set[Fired]:
        hit = [key for key in self.set if key[0] in kinds and key[1] == path]
        for key in hit:
            del self.set[key]
        return {Fired(watch, path, event) for _, _, watch in hit}

    def event(self, path: str, event: WatchEvent) -> set[Fired]:
        kinds = {WatchEvent.CHILDREN: "c", WatchEvent.DELETED: "dc"}.get(event, "d")
        return self.fire(kinds, path, event)

    def look(self, kind: str, path: str, zxid: int) -> set[Fired]:
        seen = {z for (k, p, _), z in self.set.items() if (k, p) == (kind, path)}
        assert len(seen) <= 1
        if not seen or seen == {zxid}:
            return set()
        if zxid == ABSENT:
            return self.fire("dc", path, WatchEvent.DELETED)
        if kind == "c":
            return self.fire("c", path, WatchEvent.CHILDREN)
        came = seen == {ABSENT}
        return self.fire("d", path, WatchEvent.CREATED if came else WatchEvent.CHANGED)


EVENTS = [e for e in WatchEvent if e is not WatchEvent.SESSION_LOST]
ZXIDS = st.integers(ABSENT, 3)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("dc"), st.sampled_from(PATHS), ZXIDS),
    st.tuples(st.just("event"), st.sampled_from(EVENTS), st.sampled_from(PATHS), ZXIDS),
    st.tuples(st.just("look"), st.sampled_from("dc"), st.sampled_from(PATHS), ZXIDS),
    st.tuples(st.just("lose"), st.just(""), st.just(""), ZXIDS),
)


@given(st.lists(st.tuples(STEPS, st.sampled_from(range(3)))))
def test_watches_fire_as_if_each_was_looked_for(steps: list[tuple[Any, int]]) -> None:
    real, dumb = SessionWatches(), DumbWatches()
    do: dict[str, Any] = {
        "add": lambda kind, path, zxid, watch: _add(real, dumb, kind, path, zxid, watch),
        "event": lambda event, path, _zxid, _watch: _same(
            real.take(path, event), dumb.event(path, event)
        ),
        "look": lambda kind, path, zxid, _watch: _same(
            (real.take_changed_data if kind == "d" else real.take_changed_children)(path, zxid),
            dumb.look(kind, path, zxid),
        ),
        "lose": lambda _kind, _path, _zxid, _watch: _lose(real, dumb),
    }
    for (step, what, path, zxid), number in steps:
        do[step](what, path, zxid, WATCHES[number])
        assert len(real) == len(dumb.set)
        assert set(real.data_paths) == {p for k, p, _ in dumb.set if k == "d"}
        assert set(real.children_paths) == {p for k, p, _ in dumb.set if k == "c"}


def _add(
    real: SessionWatches, dumb: DumbWatches, kind: str, path: str, zxid: int, watch: Watch
) -> None:
    (real.add_data if kind == "d" else real.add_children)(path, watch, zxid)
    dumb.add(kind, path, watch, zxid)


def _same(found: list[Fired], expected: set[Fired]) -> None:
    assert len(found) == len(set(found)) == len(expected)
    assert set(found) == expected


def _lose(real: SessionWatches, dumb: DumbWatches) -> None:
    expected = {Fired(w, p, WatchEvent.SESSION_LOST) for _, p, w in dumb.set}
    dumb.set.clear()
    _same(real.take_all(), expected)


def test_no_watch_is_no_watch() -> None:
    watches = SessionWatches()
    watches.add_data("/a", None, 1)
    watches.add_children("/a", None, 1)
    assert (len(watches), watches.data_paths, watches.children_paths) == (0, [], [])


@pytest.mark.parametrize("event", EVENTS)
def test_event_that_nobody_waits_for(event: WatchEvent) -> None:
    assert SessionWatches().take("/a", event) == []
