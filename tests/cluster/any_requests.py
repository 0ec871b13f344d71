"""Well-formed requests of any API that ask for anything: what exists, and what cannot be."""

import dataclasses
from collections.abc import Iterator
from itertools import count
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.primitives import Kind
from tests.cluster.raw import batch
from tests.unit.protocol.kafka.samples import Leaf, values

TOPIC: Final = "hostile-apis"
GROUP: Final = "hostile-group"
TRANSACTIONAL_ID: Final = "hostile-producer"
MANY: Final = 3000
"""Elements of an array that is far too long."""
MANY_OF: Final = {"DescribeConfigs": 100}
"""The same of APIs that answer one element with so much (60 KB) that the client is the slow one."""

_fresh = count()


def some(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Return what exists every other time, and anything else else."""
    return st.just(usual) | st.sampled_from(others)


def _integers(bits: int) -> st.SearchStrategy[int]:
    edge = 1 << bits - 1
    return some(0, -edge, -2, -1, 1, 2, 5, edge - 1)


_NEW_GROUPS: Final = st.builds(lambda: f"group-{next(_fresh)}")
_NAMES: Final = some(
    TOPIC, "no-such", "", ".", "a/b", "__consumer_offsets", "__transaction_state", "größer", "\0",
    "x" * 249, "x" * 1000, "1", "consumer",
)  # fmt: skip
_BATCHES: Final = some(
    bytes(batch(b"value")), b"", b"\0", b"?" * 61, bytes(batch(b"value", codec=1)),
    bytes(batch(b"a", b"b")) * 2,
)  # fmt: skip
_PARTITIONS: Final = some(3, -(1 << 31), -2, -1, 0, 1, 2, (1 << 31) - 1)

_BY_KIND: Final[dict[str, st.SearchStrategy[Any]]] = {
    **{f"int{bits}": _integers(bits) for bits in (8, 16, 32, 64)},
    "bool": st.booleans(),
    "string": _NAMES,
    "bytes": some(b"", b"\0\0", b"?" * 40, bytes(range(200))),
    "records": _BATCHES,
    "float64": some(0.5, 0.0, -1.5, 1e300, float("inf"), float("nan")),
}
_BY_FIELD: Final[dict[str, st.SearchStrategy[Any]]] = {
    "acks": some(-1, 0, 1, 2),
    "entity_type": some("user", "client-id", "ip", "group", ""),
    "group_id": some(GROUP, "no-group", "", "x" * 1000) | _NEW_GROUPS,
    "groups": some(GROUP, "no-group", ""),
    "groups_names": some(GROUP, "no-group", ""),
    "group_ids": some(GROUP, "no-group", ""),
    "max_wait_ms": some(0, -1, 1),
    "num_partitions": _PARTITIONS,
    "count": _PARTITIONS,
    "replication_factor": some(1, -1, 0, 2, -2),
    "resource_type": some(2, 4, 8, 16, 32, 0, 1, -1),
    "transactional_id": some(TRANSACTIONAL_ID, "no-producer", "", "x" * 1000),
    "value": some("1", "", "x", "compact", "-1", "1" * 1000),
}
_BY_API: Final[dict[tuple[str, str], st.SearchStrategy[Any]]] = {
    # A group of its own: members of one that is known would wait for each other.
    ("JoinGroup", "group_id"): _NEW_GROUPS | st.just(""),
    # A quota that acts would keep this very client waiting.
    ("AlterClientQuotas", "key"): some("no_such_quota", "", "connection_creation_rate"),
    ("AlterClientQuotas", "value"): _BY_KIND["float64"],
    ("AlterConfigs", "name"): some("retention.ms", "no.such", "", "cleanup.policy"),
    ("IncrementalAlterConfigs", "name"): some("retention.ms", "no.such", "", "cleanup.policy"),
    # What the other APIs need stays: internal topics, and a topic that is made anew for each.
    ("DeleteTopics", "name"): some(TOPIC, "no-such", "", "a/b", "x" * 1000),
    ("DeleteTopics", "topic_names"): some(TOPIC, "no-such", "", "a/b", "x" * 1000),
    ("DescribeConfigs", "configuration_keys"): some("retention.ms", "no.such", ""),
    ("FindCoordinator", "key_type"): some(0, 1, 2, -1, 127),
}


def leaves(api: Api[Any, Any], topic_id: bytes) -> Leaf:
    """Return what fields may hold. Nothing that is asked for takes long, or stays behind."""

    def leaf(name: str, kind: Kind) -> st.SearchStrategy[Any]:
        if kind.name == "uuid":
            return some(topic_id, bytes(16), bytes(range(16)), b"\xff" * 16)
        usual = _BY_FIELD.get(name, _BY_KIND[kind.name])
        return _BY_API.get((api.name, name), usual)

    return leaf


class Asked(NamedTuple):
    """A request of one version; one array of it is sent as if it were huge, and shown as it is."""

    version: int
    request: Any
    repeated: str | None
    times: int

    def message(self) -> Any:
        """Return the request to send."""
        if self.repeated is None:
            return self.request
        first = getattr(self.request, self.repeated)[:1]
        return dataclasses.replace(self.request, **{self.repeated: first * self.times})


@st.composite
def any_requests(draw: st.DrawFn, api: Api[Any, Any], topic_id: bytes) -> Asked:
    """Yield a request of any version of the API; now and then one array of it is huge."""
    version = draw(st.sampled_from(api.versions))
    request = draw(values(api.request, version, leaves(api, topic_id)))
    arrays = [
        field.name
        for field in dataclasses.fields(request)
        if isinstance(getattr(request, field.name), tuple) and getattr(request, field.name)
    ]
    is_huge = bool(arrays) and draw(st.integers(0, 9)) == 0
    repeated = draw(st.sampled_from(arrays)) if is_huge else None
    return Asked(version, request, repeated, MANY_OF.get(api.name, MANY))


def error_codes(answer: Any) -> Iterator[int]:
    """Yield every error code in an answer, wherever it is."""
    if isinstance(answer, list | tuple):
        for each in answer:
            yield from error_codes(each)
    elif dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            value = getattr(answer, field.name)
            if field.name.endswith("error_code"):
                yield value
            else:
                yield from error_codes(value)
