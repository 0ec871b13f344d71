"""Which topics of a fetch its client may read, as of a version of what is allowed.

A consumer needs READ on each topic, a broker that follows CLUSTER_ACTION on the cluster. What is
allowed changes while a fetch waits: it then asks again, and has no record of what it may not read.
Source: KafkaApis.handleFetchRequest.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from tailrace.broker.fetching.parked import ParkedFetches
from tailrace.broker.fetching.target import Target
from tailrace.core.access.authorizer import Authorizer
from tailrace.protocol.errors import ErrorCode

Refusal: TypeAlias = Callable[[str], ErrorCode]
"""Returns NONE for a topic that may be read."""

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class FetchAccess:
    """What one fetch may read. There is none without an authorizer."""

    __slots__ = ("_authorizer", "_known", "_refusal", "parked", "version")

    def __init__(self, authorizer: Authorizer, refusal: Refusal, parked: ParkedFetches) -> None:
        """`refusal` asks the authorizer; here it is asked once for a topic and a version.

        `parked`: where the fetch stands while it waits.
        """
        self._authorizer = authorizer
        self.parked = parked
        self._refusal = refusal
        self._known: dict[str, ErrorCode] = {}
        self.version = authorizer.version

    def check(self, target: Target) -> None:
        """Refuse a partition whose topic may not be read; an id that is not known is not asked."""
        name = target.key[0] if target.topic is None else target.topic.name
        if isinstance(name, bytes):
            return
        code = self._known.get(name)
        if code is None:
            code = self._known[name] = self._refusal(name)
        if code:
            target.error = code

    def is_outdated(self) -> bool:
        """Return whether what is allowed has changed; then nothing is known from before."""
        version = self._authorizer.version
        if self.version == version:
            return False
        self.version = version
        self._known.clear()
        return True
