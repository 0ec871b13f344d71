import pytest

from tailrace.tools.endpoints import Endpoint, parse_endpoint
from tailrace.tools.errors import CliError, Exit


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("127.0.0.1:9092", Endpoint("127.0.0.1", 9092)),
        ("host", Endpoint("host", 9092)),
        ("host:", Endpoint("host", 9092)),
        (":0", Endpoint("", 0)),
        ("[::1]:7", Endpoint("::1", 7)),
        ("[::1]", Endpoint("::1", 9092)),
    ],
)
def test_addresses(text: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(text, "--listen") == endpoint


@pytest.mark.parametrize("text", ["::1:9092", "h:x", "h:70000", "h:-1", "[::1]:x", "h:٣"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(CliError) as error:
        parse_endpoint(text, "--listen")
    assert error.value.code is Exit.USAGE
    assert "at: --listen" in error.value.report()
