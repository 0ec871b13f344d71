"""The control port: faults are set, listed and undone over HTTP, as JSON.

    POST   /faults       {"fault": "drop_next", "api": "Produce"} -> 200 {"id": 1, "hits": 0}
    GET    /faults       [{"id": 1, "fault": "drop_next", ..., "hits": 0}]
    DELETE /faults/ID    undoes one; one that is not set (any more) is undone already
    DELETE /faults       undoes all

What cannot be done: 400 {"error": cause, "place": ..., "remedy": ...}. No authentication: the port
is of tests, exists only under `--test-faults`, and is on a loopback address.
"""

import logging
import sys
from collections.abc import Awaitable, Callable, Mapping

from tailrace.broker.broker import Broker
from tailrace.core.runtime.clock import SystemClock
from tailrace.core.runtime.http import Asked, HttpReply
from tailrace.core.runtime.late_http import LateHttpServer
from tailrace.faults.breakable_files import BreakableFiles
from tailrace.faults.deeds import Targets, do
from tailrace.faults.interception import Interception
from tailrace.faults.orders import BadOrder, Deed, FillDisk, Lasting, parse
from tailrace.faults.skewed_clock import SkewedClock
from tailrace.faults.table import FaultTable, SetFault

logger = logging.getLogger(__name__)


class FaultControl:
    """The faults of one process: what it runs on, and the port that sets them.

    A process makes it first, runs on its `clock` and `files`, and opens the port when its broker
    is there.
    """

    def __init__(self, host: str, port: int) -> None:
        """`host`: a loopback address; `port`: 0 picks a free one."""
        self.clock = SkewedClock(SystemClock())
        self.files = BreakableFiles()
        self._table = FaultTable()
        self._requests = Interception(self._table)
        self._targets: Targets | None = None
        self._server = LateHttpServer(
            host,
            port,
            {
                ("POST", "/faults"): self._post,
                ("GET", "/faults"): lambda _: HttpReply([each.shown() for each in self._table]),
                ("DELETE", "/faults"): lambda _: self._undo(lambda _: True),
                ("DELETE", "/faults/{id}"): Asked(self._delete),
            },
        )

    @property
    def address(self) -> str:
        """Where the port is. Shape: HOST:PORT."""
        host = self._server.host
        return f"[{host}]:{self._server.port}" if ":" in host else f"{host}:{self._server.port}"

    def open(
        self, broker: Broker, look_at_disks: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Break `broker` when it is asked for; listen, and print where.

        `look_at_disks`: has the bookie of this process find out what room there is.
        Errors: OSError, which says what address is taken.
        """
        self._targets = Targets(broker, look_at_disks)
        broker.faults = self._requests
        try:
            self._server.listen()
        except OSError as error:
            raise OSError(error.errno, f"--test-faults {self.address}: {error.strerror}") from error
        sys.stdout.write(f"faults: http={self.address}\n")
        sys.stdout.flush()

    async def close(self) -> None:
        """Stop listening. Idempotent."""
        await self._server.close()

    async def _post(self, body: bytes) -> HttpReply:
        try:
            order = parse(body)
            assert self._targets is not None, "nobody can ask before the port is open"
            self._targets.check(order)
            logger.warning("fault_asked order=%s", order)
            if isinstance(order, Deed):
                return HttpReply({"id": self._table.next_id(), "hits": await self._do(order)})
            return HttpReply({"id": (await self._set(order)).id, "hits": 0})
        except BadOrder as bad:
            said = {"error": bad.cause, "place": bad.place, "remedy": bad.remedy}
            return HttpReply(said, status=400)

    async def _delete(self, asked: Mapping[str, str]) -> HttpReply:
        return await self._undo(lambda fault: str(fault.id) == asked["id"])

    async def _do(self, deed: Deed) -> int:
        assert self._targets is not None, "nobody can ask before the port is open"
        hits = await do(deed, self._targets, self.files, self._free_disk)
        await self._follow()
        return hits

    def _free_disk(self) -> int:
        return len(self._table.undo(lambda fault: isinstance(fault.order, FillDisk)))

    async def _set(self, order: Lasting) -> SetFault:
        fault = self._table.add(order)
        await self._follow()
        return fault

    async def _undo(self, wanted: Callable[[SetFault], bool]) -> HttpReply:
        gone = self._table.undo(wanted)
        for fault in gone:
            logger.warning("fault_undone id=%d hits=%d order=%s", fault.id, fault.hits, fault.order)
            self._requests.release(fault.id)
        await self._follow()
        return HttpReply([fault.shown() for fault in gone])

    async def _follow(self) -> None:
        """Make the clock and the disk what the table says."""
        assert self._targets is not None
        self.clock.skew_ms = round(self._table.skew_s * 1000)
        if self.files.is_full != self._table.is_disk_full:
            self.files.is_full = self._table.is_disk_full
            if self._targets.look_at_disks is not None:
                await self._targets.look_at_disks()
