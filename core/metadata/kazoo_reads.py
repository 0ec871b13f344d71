"""A request that kazoo does not have: several nodes at once. Part of `zookeeper_link`.

Source: ZooKeeper 3.6 and later, OpCode.multiRead; MultiOperationRecord, MultiResponse.
"""

from typing import Any, Final, NamedTuple

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import (
    GetData,
    int_struct,
    multiheader_struct,
    read_buffer,
    stat_struct,
)
from kazoo.protocol.states import ZnodeStat

_END: Final = multiheader_struct.pack(-1, 1, -1)
_GET: Final = multiheader_struct.pack(GetData.type, 0, -1)


class MultiRead(NamedTuple):
    """A request as kazoo's connection sends and reads it."""

    paths: tuple[str, ...]

    @property
    def type(self) -> int:
        """The request's number."""
        return 22

    def serialize(self) -> bytes:
        """Return the request's bytes."""
        asked = [_GET + bytes(GetData(path, None).serialize()) for path in self.paths]
        return b"".join((*asked, _END))

    def deserialize(self, answer: bytes, offset: int) -> list[Any]:
        """Return (data, stat), or a kazoo error, for each path."""
        found: list[Any] = []
        while True:
            kind, is_end, _ = multiheader_struct.unpack_from(answer, offset)
            offset += multiheader_struct.size
            if is_end:
                return found
            if kind == GetData.type:
                data, offset = read_buffer(answer, offset)
                stat = ZnodeStat._make(stat_struct.unpack_from(answer, offset))
                offset += stat_struct.size
                found.append((data, stat))
            else:
                (code,) = int_struct.unpack_from(answer, offset)
                offset += int_struct.size
                found.append(EXCEPTIONS[code]())
