"""Where a proxy is, as the lock of each of its streams says it. Pure.

    1;<shard>;<host>:<port>        shard -1: none was given

Source: reference DistributedLog 9.2; DLSocketAddress.
"""

import re
from typing import Final, NamedTuple

from tailrace.core.runtime.decimal_text import decimal

VERSION: Final = 1
NO_SHARD: Final = -1

_LOCATION: Final = re.compile(r"([0-9]{1,10});(-?[0-9]{1,10});([^;\s]{1,255}):([0-9]{1,5})")
_SHARD_MAX: Final = 2**31 - 1
_PORT_MAX: Final = 65_535


class ProxyLocation(NamedTuple):
    """One proxy. Its text is the client id of its locks (`log.client.id`)."""

    shard: int
    host: str
    port: int

    @property
    def text(self) -> str:
        """As it stands in a lock and in an answer. Source: DLSocketAddress.getLockId."""
        return f"{VERSION};{self.shard};{self.host}:{self.port}"


def parse_location(text: str) -> ProxyLocation | None:
    """Return the location that a lock's client id names; None: its holder is not a write proxy.

    Shape: an address of IPv6 has its colons, without brackets or with them, as it came.
    Errors: none. Source: DLSocketAddress.deserialize.
    """
    found = _LOCATION.fullmatch(text)
    if found is None:
        return None
    version, shard = decimal(found[1]), decimal(found[2], _SHARD_MAX, NO_SHARD)
    port = decimal(found[4], _PORT_MAX)
    if version != VERSION or shard is None or port is None:
        return None
    return ProxyLocation(shard, found[3], port)
