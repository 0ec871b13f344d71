import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.cluster.names import collision_key, name_fault, partition_of, stream_name

LEGAL = st.text("abz019._-", min_size=1, max_size=12).filter(lambda n: n not in (".", ".."))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("a/b", "other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ä", "other than ASCII alphanumerics"),
        ("a\n", "other than ASCII alphanumerics"),
    ],
)
def test_illegal_names(name: str, words: str) -> None:
    fault = name_fault(name)
    assert fault is not None
    assert fault.startswith("Topic name is invalid: ")
    assert words in fault


@pytest.mark.parametrize("name", ["a", "...", "x" * 249, "A.b_c-9", "-", "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    assert name_fault(name) is None


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b") == collision_key("a_b")
    assert collision_key("a-b") != collision_key("a_b")


@given(LEGAL, LEGAL, st.integers(0, 30), st.integers(0, 30))
@settings(max_examples=200)
def test_streams_of_different_partitions_have_different_names(
    one: str, other: str, p: int, q: int
) -> None:
    same = (one, p) == (other, q)
    assert (stream_name(one, p) == stream_name(other, q)) is same
    assert not stream_name(one, p).startswith(".")


def test_a_leading_dot_is_escaped() -> None:
    assert stream_name(".hidden", 3) == "%2Ehidden-3"
    assert stream_name("a.b", 0) == "a.b-0"


@given(LEGAL, st.integers(0, 2**31 - 1))
def test_a_partitions_stream_tells_its_topic(topic: str, partition: int) -> None:
    assert partition_of(stream_name(topic, partition)) == (topic, partition)


@given(st.text("ab.-%2E01/ä", max_size=9) | st.text(max_size=5))
def test_no_other_stream_has_a_topic(stream: str) -> None:
    found = partition_of(stream)
    if found is not None:
        assert name_fault(found.topic) is None
        assert stream_name(*found) == stream


@pytest.mark.parametrize(
    "stream", ["", "a", "a-", "-0", "a-01", "a-x", "a--", ".a-0", f"a-{2**31}", "a-" + "9" * 5000]
)
def test_streams_of_no_topic(stream: str) -> None:
    assert partition_of(stream) is None
