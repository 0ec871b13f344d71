"""franz-go and KafkaJS by every door over TLS, and what their users see where they may not."""

import json
import subprocess
from collections.abc import Sequence
from typing import Final

from tests.interop.franz_programs import franz_program
from tests.interop.kafkajs_programs import kafkajs_program
from tests.interop.security.doors import DENIED, MAY, TLS_DOORS, TOKEN, Door, SecuredBroker

_TIMEOUT_S: Final = 60


def outcomes(command: Sequence[str], doors: Sequence[Door]) -> dict[str, str]:
    """Go by all doors, one after the other; return what came of each: "ok", or an error."""
    done = subprocess.run(
        command,
        input="".join(json.dumps(each.json()) + "\n" for each in doors),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())  # type: ignore[misc]


def tried(secured: SecuredBroker, topic: str, *more: Door) -> list[Door]:
    """Return every door, and what may not be: a password, a topic, a group."""
    open_doors = [secured.door(name) for name in TLS_DOORS] + list(more)
    right = secured.door("SCRAM-SHA-512")
    return [
        *(each.to(f"{topic}-{each.name}") for each in open_doors),
        secured.wrong().to(topic),
        right.called("denied topic").to(DENIED),
        right.called("denied group").to(topic, DENIED),
    ]


def test_franz(secured: SecuredBroker) -> None:
    doors = tried(secured, f"{MAY}franz", secured.token())
    found = outcomes([franz_program("secured")], doors)
    assert {name for name, outcome in found.items() if outcome == "ok"} == {*TLS_DOORS, TOKEN}
    assert "SASL_AUTHENTICATION_FAILED: SASL Authentication failed" in found["wrong password"]
    assert "TOPIC_AUTHORIZATION_FAILED: Not authorized to access topics" in found["denied topic"]
    assert "GROUP_AUTHORIZATION_FAILED: Not authorized to access group" in found["denied group"]


def test_kafkajs(secured: SecuredBroker) -> None:
    found = outcomes(kafkajs_program("secured"), tried(secured, f"{MAY}kafkajs"))
    assert {name for name, outcome in found.items() if outcome == "ok"} == set(TLS_DOORS)
    assert found["wrong password"].startswith("KafkaJSSASLAuthenticationError: ")
    assert "Not authorized to access topics" in found["denied topic"]
    assert found["denied group"].startswith("KafkaJSGroupCoordinatorNotFound: ")
