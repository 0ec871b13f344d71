"""One Kafka API: its key, its versions, and the messages that travel."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from tailrace.protocol.errors import UnsupportedVersion

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True, slots=True)
class Api(Generic[Request, Response]):
    """One Kafka API. `versions` are the ones that decode and encode."""

    key: int
    name: str
    versions: range
    flexible_since: int
    request: type[Request]
    response: type[Response]
    advertised_since: int | None = None  # when ApiVersions shows more than is spoken

    @property
    def advertised(self) -> range:
        """The versions that ApiVersions shows: Produce from 0, as Kafka 4 does (KAFKA-18659)."""
        first = self.versions.start if self.advertised_since is None else self.advertised_since
        return range(first, self.versions.stop)

    def flexible(self, version: int) -> bool:
        """Say whether `version` has compact lengths and tagged fields."""
        return version >= self.flexible_since

    def check(self, version: int) -> None:
        """Refuse a version that is not spoken. Errors: UnsupportedVersion."""
        if version not in self.versions:
            raise UnsupportedVersion(f"{self.name} v{version}")
