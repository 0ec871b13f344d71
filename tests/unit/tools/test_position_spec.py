import pytest

from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import TopicPartition
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.logs.position_spec import PositionSpec, parse_partition, parse_position

AT = TopicPartition("a.b-c_1", 3)


def test_positions() -> None:
    assert parse_partition("a.b-c_1/3") == AT
    assert parse_position("a.b-c_1/3@17") == PositionSpec(AT, 17, None)
    assert parse_position("a.b-c_1/3@dlsn:1,2,3") == PositionSpec(AT, None, DLSN(1, 2, 3))


@pytest.mark.parametrize(
    "text",
    ["", "t", "t/", "/0", "t/-1", "t/x", "t/0@", "t/0@-1", "t/0@1.5", "t/0@dlsn:1,2", "a/b/0@1"],
)
def test_what_is_no_position(text: str) -> None:
    with pytest.raises(CliError) as error:
        parse_position(text)
    assert error.value.code is Exit.USAGE
    assert "TOPIC/PARTITION" in error.value.remedy
