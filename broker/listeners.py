"""Where a broker listens, and what it tells its clients: Kafka's listeners. Pure.

`listeners` is where sockets are opened, by name; `advertised.listeners` is the address that clients
of a listener are told. A client goes on with the address it is told, so each way to the broker (a
port mapped to the host, a network of containers) needs a listener with an address that works there.
Source: Kafka's SocketServerConfigs, KafkaConfig.validateValues.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from typing_extensions import override

from tailrace.core.access.requester import Requester
from tailrace.core.access.sasl.mechanism import Authenticated

PORT_MAX: Final = 65_535
ANONYMOUS: Final = "ANONYMOUS"
"""The user of a connection without authentication, as in Kafka."""
REQUESTERS_KEPT: Final = 1000
"""Users at an address: a request is asked for each of its topics."""
EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})
"""Hosts that mean all addresses of the machine; nobody can connect to them from elsewhere."""

_LABEL: Final = r"[^:/\[\]\s.]"
_HOST: Final = rf"(?:{_LABEL}{{1,63}}\.)*{_LABEL}{{0,63}}"  # what can be looked up at all
_LISTENER = re.compile(rf"([A-Za-z0-9_.\-]+)://(?:\[([0-9A-Fa-f:.%]*)\]|({_HOST})):([0-9]{{1,5}})")


class SecurityProtocol(StrEnum):
    """How the clients of a listener speak."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        """Whether what they say is encrypted."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def uses_sasl(self) -> bool:
        """Whether they have to say who they are before all else."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class Endpoint(NamedTuple):
    """Where clients are told to connect."""

    host: str
    port: int

    @override
    def __str__(self) -> str:
        """Return HOST:PORT, as clients take it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Listener(NamedTuple):
    """One entry of `listeners` or `advertised.listeners`."""

    name: str
    host: str
    port: int

    @override
    def __str__(self) -> str:
        """Return it as users write it."""
        return f"{self.name}://{Endpoint(self.host, self.port)}"


def parse_listeners(texts: Iterable[str], setting: str) -> tuple[Listener, ...]:
    """Read NAME://HOST:PORT entries; names are upper case. Errors: ValueError, naming `setting`."""
    listeners: list[Listener] = []
    for text in texts:
        found = _LISTENER.fullmatch(text)
        if found is None or int(found[4]) > PORT_MAX:
            raise ValueError(f"{setting}: {text!r} is not NAME://HOST:PORT")
        listener = Listener(found[1].upper(), found[2] or found[3] or "", int(found[4]))
        if any(each.name == listener.name for each in listeners):
            raise ValueError(f"{setting}: two listeners are named {listener.name}")
        listeners.append(listener)
    return tuple(listeners)


def parse_protocols(texts: Iterable[str]) -> dict[str, SecurityProtocol]:
    """Read NAME:PROTOCOL entries of `listener.security.protocol.map`. Errors: ValueError."""
    setting = "listener.security.protocol.map"
    protocols: dict[str, SecurityProtocol] = {}
    for text in texts:
        name, colon, protocol = (part.strip().upper() for part in text.partition(":"))
        if not (name and colon):
            raise ValueError(f"{setting}: {text!r} is not NAME:PROTOCOL")
        if name in protocols:
            raise ValueError(f"{setting}: {name} is there twice")
        protocols[name] = _protocol(protocol, setting)
    return protocols


def protocol_of(name: str, given: Mapping[str, SecurityProtocol]) -> SecurityProtocol:
    """Return how the clients of a listener speak. Errors: ValueError.

    A listener that the map does not have and that is named like a protocol has it; any other is
    plaintext, where Kafka asks for an entry.
    """
    if name in given:
        return given[name]
    return SecurityProtocol.__members__.get(name, SecurityProtocol.PLAINTEXT)


def _protocol(text: str, setting: str) -> SecurityProtocol:
    try:
        return SecurityProtocol(text)
    except ValueError:
        known = ", ".join(SecurityProtocol)
        raise ValueError(f"{setting}: {text} is not a protocol; {known} are") from None


def check_listeners(
    listeners: Sequence[Listener], told: Sequence[Listener], inter_broker: str
) -> None:
    """Refuse what contradicts itself. Errors: ValueError."""
    if not listeners:
        raise ValueError("listeners: at least one is needed")
    places = [(each.host, each.port) for each in listeners if each.port]
    if len(set(places)) < len(places):
        raise ValueError("listeners: each needs an address of its own")
    names = [each.name for each in listeners]
    wanted = [(each.name, "advertised.listeners") for each in told]
    for name, setting in [*wanted, (inter_broker, "inter.broker.listener.name")]:
        if name and name not in names:
            raise ValueError(f"{setting}: {name} is none of the listeners ({', '.join(names)})")
    for each in told:
        if each.host in EVERYWHERE:
            raise ValueError(f"advertised.listeners: nobody can connect to {each}: give a host")


@lru_cache(REQUESTERS_KEPT)
def _requester(user: str, host: str) -> Requester:
    return Requester(f"User:{user}", host)


class ConnectionInfo(NamedTuple):
    """Who asks; one per connection."""

    host: str
    """The client's address."""
    port: int
    listener: str
    """Name of the listener it came in by."""
    reached: Endpoint | None = None
    """The address of ours that it connected to, as seen on this machine."""
    user: str = ANONYMOUS
    """As which it is known; quotas go by it."""
    authenticated: Authenticated | None = None
    """What SASL found out; None: the listener does not ask."""
    session_ends_s: float | None = None
    """When it is not known any more, by the loop's time; None: never."""

    @property
    def requester(self) -> Requester:
        """As authorizers know it."""
        return _requester(self.user, self.host)


class Advertised:
    """What the clients of each listener are told about this broker.

    A listener that `told` names is told as it says; its port 0 is the one that is listened on. Of
    the others: what they listen on. One that listens on all addresses is told as `own_name`, or,
    with `as_reached`, as the address at which the client reached it: the one that works for it.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        told: Sequence[Listener] = (),
        *,
        inter_broker: str = "",
        own_name: str = "localhost",
        as_reached: bool = False,
    ) -> None:
        self._listeners = tuple(listeners)
        self._told = {each.name: each for each in told}
        self._own_name = own_name
        self._inter_broker = inter_broker or listeners[0].name
        self._as_reached = frozenset(
            each.name
            for each in listeners
            if as_reached and each.host in EVERYWHERE and each.name not in self._told
        )
        self.named: Mapping[str, Endpoint] = {}
        """By listener, in the order of `listeners`."""
        self.bound({})

    def bound(self, ports: Mapping[str, int]) -> None:
        """Fill in what is listened on: the real port of each listener."""
        named = {}
        for each in self._listeners:
            port = ports.get(each.name, each.port)
            at = self._told.get(each.name, each)
            host = self._own_name if at.host in EVERYWHERE else at.host
            named[each.name] = Endpoint(host, (at is not each and at.port) or port)
        self.named = named

    def to(self, client: ConnectionInfo) -> Endpoint:
        """Return the address that a client is told."""
        if client.listener in self._as_reached and client.reached is not None:
            return client.reached
        return self.named[client.listener]

    @property
    def first(self) -> Endpoint:
        """The address of the first listener, for people."""
        return self.named[self._listeners[0].name]

    @property
    def inter_broker(self) -> Endpoint:
        """Where other brokers connect."""
        return self.named[self._inter_broker]
