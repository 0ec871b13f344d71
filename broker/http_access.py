"""Who may ask what of the broker's HTTP port: one row a path, in Kafka's operations.

    request -> who asks (core/access/callers.py) -> its row below -> the broker's authorizer

An answer that refuses says nothing of what is there: a topic that is not gets the same one.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tailrace.core.access.acls.model import CLUSTER_NAME, Operation, ResourceType
from tailrace.core.access.audit import Action, Audit, Door
from tailrace.core.access.authorizer import Authorizer
from tailrace.core.access.callers import Call, Callers
from tailrace.core.access.requester import Requester
from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.errors import OverCapacity, Unavailable
from tailrace.core.runtime.http import HttpHead, HttpReply
from tailrace.core.runtime.metrics import counter

logger = logging.getLogger(__name__)

_DOOR: Final = "HTTP"
_REALM: Final = 'realm="tailrace"'


class Need(NamedTuple):
    """What a request needs to be allowed."""

    operation: Operation
    resource_type: ResourceType


_DESCRIBE_CLUSTER: Final = Need(Operation.DESCRIBE, ResourceType.CLUSTER)
_ALTER_CLUSTER: Final = Need(Operation.ALTER, ResourceType.CLUSTER)

NEEDS: Final = {
    ("GET", "/health"): _DESCRIBE_CLUSTER,
    ("GET", "/metrics"): _DESCRIBE_CLUSTER,
    ("GET", "/cleaner"): _DESCRIBE_CLUSTER,
    ("GET", "/cleaner/plan"): _DESCRIBE_CLUSTER,
    ("PUT", "/cleaner/run"): _ALTER_CLUSTER,
    ("PUT", "/cleaner/pause"): _ALTER_CLUSTER,
    ("PUT", "/cleaner/resume"): _ALTER_CLUSTER,
    ("GET", "/topics/{topic}/stats"): Need(Operation.DESCRIBE, ResourceType.TOPIC),
    ("GET", "/topics/{topic}/latest"): Need(Operation.READ, ResourceType.TOPIC),
}
"""By method and path. `admin.http.open.paths` need nothing."""


@dataclass(slots=True)
class HttpAccessMetrics:
    """Requests that were not let in. Register them as `admin_http`."""

    unauthenticated_total: int = counter("requests that did not say who asks, or not truly")
    denied_total: int = counter("requests of who may not do what was asked")


class HttpAccess:
    """The guard of the HTTP port."""

    def __init__(
        self,
        callers: Callers,
        authorizer: Callable[[], Authorizer | None],
        open_paths: tuple[str, ...],
        audit: Audit | None = None,
    ) -> None:
        self.metrics = HttpAccessMetrics()
        self._callers = callers
        self._authorizer = authorizer
        self._open_paths = frozenset(open_paths)
        self._audit = audit

    async def refusal(self, head: HttpHead) -> HttpReply | None:
        """Return the answer to a request that is not let in, None for one that is."""
        if head.route[1] in self._open_paths:
            return None
        call = Call(head.host, head.authorization, head.certificate)
        try:
            requester = (await self._callers.caller(call)).requester
        except AuthenticationFailed as error:
            self.metrics.unauthenticated_total += 1
            if self._audit is not None and call.brings:
                self._audit.refused(head.host, _DOOR, call.brings, error.reason)
            logger.info("http_unauthenticated peer=%s reason=%r", head.host, error.reason)
            return self._unauthenticated(str(error))
        except OverCapacity as error:
            return HttpReply({"error": str(error)}, 429, headers={"Retry-After": "1"})
        except Unavailable as error:
            return HttpReply({"error": str(error)}, 503)
        return self._denial(requester, head)

    def _denial(self, requester: Requester, head: HttpHead) -> HttpReply | None:
        authorizer, (operation, kind) = self._authorizer(), NEEDS[head.route]
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else head.names["topic"]
        if authorizer is None:
            return None
        allowed = authorizer.allows(requester, operation, kind, name)
        if self._audit is not None:
            door, action = Door(_DOOR, " ".join(head.route)), Action(operation, kind, name)
            self._audit.authorized(requester, door, action, object(), allowed=allowed)
        if allowed:
            return None
        self.metrics.denied_total += 1
        text = f"{requester.principal} may not {operation.name} {kind.name} {name}"
        return HttpReply({"error": text}, 403)

    def _unauthenticated(self, text: str) -> HttpReply:
        schemes = [f"{each} {_REALM}" for each in self._callers.means.schemes]
        if not schemes:  # what is missing is a certificate, which no header can bring
            return HttpReply({"error": text}, 403)
        return HttpReply({"error": text}, 401, headers={"WWW-Authenticate": ", ".join(schemes)})
