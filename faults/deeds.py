"""What is done at once, to the parts of a running broker."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from tailrace.broker.broker import Broker
from tailrace.faults.breakable_files import BreakableFiles
from tailrace.faults.orders import (
    AbortTransaction,
    BadOrder,
    CutConnections,
    Deed,
    FillDisk,
    FreeDisk,
    Lasting,
    LoseUnsynced,
)
from tailrace.protocol.errors import ErrorCode

_SETTLED_S: Final = 5.0
_AGAIN_S: Final = 0.02
_UNDER_WAY: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


class Targets(NamedTuple):
    """What faults work on, once it runs."""

    broker: Broker
    look_at_disks: Callable[[], Awaitable[None]] | None
    """Have the bookie find out now what room there is; None where no bookie is in the process."""

    def check(self, order: Lasting | Deed) -> None:
        """Refuse what this process has no part for. Errors: BadOrder."""
        if self.look_at_disks is None and isinstance(order, FillDisk | FreeDisk | LoseUnsynced):
            raise BadOrder(
                "this process keeps no files, its bookies do", "fault", "use `tailrace start`"
            )


async def do(deed: Deed, targets: Targets, files: BreakableFiles, free: Callable[[], int]) -> int:
    """Do it and return how much it hit; `free` undoes `fill_disk`. Errors: BadOrder.

    `lose_unsynced` does not return.
    """
    if isinstance(deed, CutConnections):
        return targets.broker.cut_connections()
    if isinstance(deed, FreeDisk):
        return free()
    if isinstance(deed, LoseUnsynced):
        files.lose_unsynced()
    if isinstance(deed, AbortTransaction):
        code = await _settled(partial(targets.broker.transactions.abort, deed.transactional_id))
        return _done(code, deed.transactional_id, "transactional_id", _TRANSACTION_REMEDIES)
    code = await _settled(partial(targets.broker.groups.rebalance, deed.group))
    return _done(code, deed.group, "group", _GROUP_REMEDIES)


async def _settled(ask: Callable[[], Awaitable[ErrorCode]]) -> ErrorCode:
    """Ask until nothing is under way that hides the answer, a few seconds at most."""
    code = await ask()
    for _ in range(round(_SETTLED_S / _AGAIN_S)):
        if code not in _UNDER_WAY:
            break
        await asyncio.sleep(_AGAIN_S)
        code = await ask()
    return code


def _done(code: ErrorCode, name: str, place: str, remedies: dict[ErrorCode, str]) -> int:
    if code is ErrorCode.NONE:
        return 1
    raise BadOrder(f"{name}: {code.name}", place, remedies.get(code, "try again in a moment"))


_TRANSACTION_REMEDIES = {
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "no producer has this id: call init_transactions first",
    ErrorCode.INVALID_TXN_STATE: "no transaction is open: send a record of it first",
    ErrorCode.NOT_COORDINATOR: "ask the broker that FindCoordinator names",
}
_GROUP_REMEDIES = {
    ErrorCode.GROUP_ID_NOT_FOUND: "no consumer has joined a group of this name",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has no members: wait until a consumer has joined",
    ErrorCode.NOT_COORDINATOR: "ask the broker that FindCoordinator names",
}
