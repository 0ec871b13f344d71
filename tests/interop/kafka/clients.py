"""Kafka's Java producers, consumers and Admin as tests call them: one JSON command a call."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from tests.java.peers import JavaClient
from tests.process import TailraceProcess

_numbers = count()


class Kafka:
    """Clients of one version against one broker."""

    def __init__(self, peer: JavaClient, broker: TailraceProcess, at: str = "") -> None:
        """`at`: the address of another listener than the first."""
        self._peer = peer
        self._bootstrap = at or broker.bootstrap

    def admin(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Call Kafka's Admin ("topics.create"). Errors: JavaError."""
        answer = self._peer.call(f"admin.{verb}", bootstrap=self._bootstrap, **fields)
        del answer["id"]
        return answer

    @contextmanager
    def producer(self, **config: object) -> Iterator["Client"]:
        """Open a producer; `acks=all` and idempotence are its own defaults."""
        yield from self._opened("producer", {"linger.ms": 0, **config})

    @contextmanager
    def consumer(self, **config: object) -> Iterator["Client"]:
        """Open a consumer that begins at the start and commits when it is told to."""
        defaults = {
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "heartbeat.interval.ms": 300,
        }
        if config.get("group.protocol") == "consumer":
            del defaults["heartbeat.interval.ms"]  # the broker's matter there
        yield from self._opened("consumer", {**defaults, **config})

    def _opened(self, kind: str, config: dict[str, object]) -> Iterator["Client"]:
        client = Client(self._peer, kind, f"{kind}-{next(_numbers)}")
        client("open", config={"bootstrap.servers": self._bootstrap, **config})
        try:
            yield client
        finally:
            client("close")


class Client:
    """A producer or a consumer that is open over there."""

    def __init__(self, peer: JavaClient, kind: str, name: str) -> None:
        self._peer = peer
        self._kind = kind
        self.name = name

    def __call__(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Call a method. Errors: JavaError."""
        answer = self._peer.call(f"{self._kind}.{verb}", name=self.name, **fields)
        del answer["id"]
        return answer

    def send(self, topic: str, values: Sequence[str | None], **fields: Any) -> list[int]:
        """Send values and return their offsets."""
        offsets: list[int] = self("send", topic=topic, values=values, **fields)["offsets"]
        return offsets

    def poll(self, number: int, **fields: Any) -> list[dict[str, Any]]:
        """Return at least this many records, fewer when 20 s brought no more."""
        records: list[dict[str, Any]] = self("poll", count=number, **fields)["records"]
        return records

    def values(self, number: int) -> list[str]:
        """Return the values of as many records."""
        return [record["value"] for record in self.poll(number)]
