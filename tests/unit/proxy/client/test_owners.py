"""The cache of owners, against a dumb one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.proxy.client.owners import OwnerCache
from tailrace.proxy.routing.ring import Host

HOSTS = [Host(name, 1) for name in "abc"]
STREAMS = [f"s{n}" for n in range(6)]
MAX = 4

Steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "get", "drop", "drop host"]),
        st.sampled_from(STREAMS),
        st.sampled_from(HOSTS),
    )
)


class Dumb:
    """A list, the stream that was used last at its end."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Host]] = []

    def get(self, stream: str) -> Host | None:
        known = dict(self.all).get(stream)
        if known is not None:
            self.put(stream, known)
        return known

    def put(self, stream: str, host: Host) -> None:
        self.drop(stream)
        self.all = [*self.all, (stream, host)][-MAX:]

    def drop(self, stream: str) -> None:
        self.all = [each for each in self.all if each[0] != stream]

    def drop_host(self, host: Host) -> None:
        self.all = [each for each in self.all if each[1] != host]


def do(cache: OwnerCache | Dumb, kind: str, stream: str, host: Host) -> Host | None:
    if kind == "get":
        return cache.get(stream)
    if kind == "put":
        cache.put(stream, host)
    elif kind == "drop":
        cache.drop(stream)
    else:
        cache.drop_host(host)
    return None


@settings(max_examples=50)
@given(Steps)
def test_it_is_a_bounded_map_that_forgets_what_was_not_used_for_longest(
    steps: list[tuple[str, str, Host]],
) -> None:
    cache, dumb = OwnerCache(MAX), Dumb()
    for step in steps:
        assert do(cache, *step) == do(dumb, *step)
        assert len(cache) == len(dumb.all)
    for stream in STREAMS:
        assert cache.get(stream) == dumb.get(stream)
