"""Kafka's tools get in to `tailrace.testing`'s secured brokers by what it hands out for Java."""

from pathlib import Path
from typing import Any, Final

import pytest

from tailrace.testing import Broker
from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient

USERS: Final = {"alice": 'open, "sesame"\\; é'}


@pytest.mark.parametrize(
    ("security", "settings"), [("SASL_SSL", {}), ("SSL", {"ssl.client.auth": "required"})]
)
def test_a_file_of_the_settings_gets_in(
    kafka_4: JavaClient, tmp_path: Path, security: Any, settings: dict[str, str]
) -> None:
    with Broker(security=security, users=USERS, settings=settings) as broker:
        file = tmp_path / "client.properties"
        given = broker.client_settings("java").items()
        file.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in given))
        tools: Any = Tools(kafka_4, broker)  # type: ignore[arg-type]  # its address is what counts
        config = ("--command-config", str(file))
        tools("topics", *config, "--create", "--topic", "made")
        assert ["made"] in tools("topics", *config, "--list").rows


def _escaped(value: str) -> str:
    """Return a value as a file of properties has it, which Java reads as Latin-1."""
    doubled = value.replace("\\", "\\\\")
    return "".join(each if each.isascii() else f"\\u{ord(each):04x}" for each in doubled)
