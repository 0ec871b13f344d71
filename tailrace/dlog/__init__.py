"""The embedded log: Tailrace's DistributedLog in a Python process, without a broker.

    async with dlog.open_namespace("distributedlog://zk1:2181;zk2:2181/messaging/orders") as orders:
        async with orders.open_log("payments") as log, log.open_writer() as writer:
            dlsn = await writer.write(b"paid", txid=1)
        async with log.open_reader(dlsn) as reader:
            async for record in reader: ...

Ledgers, fencing, segments and metadata are Apache DistributedLog's: its Java library reads and
writes the same logs. `tailrace.dlog.sync` has the same names for programs without asyncio.
What is in `__all__` is stable; nothing else is. All calls of one namespace come from one loop.
`ThinClient` has no ledgers: it writes and reads through proxies. gRPC is loaded with it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tailrace.dlog import errors
from tailrace.dlog.errors import *  # noqa: F403 - all of them, as `__all__` says
from tailrace.dlog.log import Log
from tailrace.dlog.namespace import Namespace, bind_namespace, open_namespace
from tailrace.dlog.opening import Opening
from tailrace.dlog.reader import LogReader
from tailrace.dlog.records import START, TAIL, Edge, LogRecord
from tailrace.dlog.settings import Setting, known_settings
from tailrace.dlog.watch import LogListChange, LogListWatch
from tailrace.dlog.writer import LogWriter
from tailrace.protocol.distributedlog.dlsn import DLSN

if TYPE_CHECKING:
    from tailrace.dlog.thin_client import (
        MultiStreamWriter,
        ProxyError,
        Segment,
        ThinClient,
        ThinReader,
        ThinWriter,
        Written,
        known_client_settings,
    )

_THIN = (
    "MultiStreamWriter",
    "ProxyError",
    "Segment",
    "ThinClient",
    "ThinReader",
    "ThinWriter",
    "Written",
    "known_client_settings",
)

__all__ = [
    "DLSN",
    "START",
    "TAIL",
    "Edge",
    "Log",
    "LogListChange",
    "LogListWatch",
    "LogReader",
    "LogRecord",
    "LogWriter",
    "MultiStreamWriter",
    "Namespace",
    "Opening",
    "ProxyError",
    "Segment",
    "Setting",
    "ThinClient",
    "ThinReader",
    "ThinWriter",
    "Written",
    "bind_namespace",
    "known_client_settings",
    "known_settings",
    "open_namespace",
]
__all__ += errors.__all__


def __getattr__(name: str) -> Any:
    """Load the thin client when its first name is used."""
    if name in _THIN:
        return getattr(import_module("tailrace.dlog.thin_client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
