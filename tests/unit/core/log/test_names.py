import pytest

from tailrace.core.errors import InvalidStreamName
from tailrace.core.log.names import check_log_name, is_reserved


@pytest.mark.parametrize("name", ["orders-0", "a/b", "%2Ehidden-1", "ä", "a.b", "a_b", "日本-3"])
def test_good_names(name: str) -> None:
    assert check_log_name(name) == name
    assert check_log_name("/" + name) == name
    assert not is_reserved(name)


@pytest.mark.parametrize(
    "name",
    ["", "/", ".a", "<default>", "a/", "a//b", "a/./b", "a/..", "a b", "a<b", "a>b", "a\0",
     "a\x01", "a\x85", "\ud801", "\uf8fe", "\ufff5", "//a"],
)  # fmt: skip
def test_bad_names(name: str) -> None:
    """reference DistributedLog 3.3; an empty name is ours to refuse (section 0)."""
    with pytest.raises(InvalidStreamName):
        check_log_name(name)
