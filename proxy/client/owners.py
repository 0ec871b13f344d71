"""Which host owns which stream, as far as answers tell. Pure.

A hint: a wrong entry costs a redirect. Bounded; the stream that was not used for longest goes.
Source: DistributedLog OwnershipCache; reference 9.4.
"""

from tailrace.proxy.routing.ring import Host


class OwnerCache:
    """Stream -> host, and host -> its streams."""

    def __init__(self, streams_max: int) -> None:
        self._max = streams_max
        self._owner: dict[str, Host] = {}
        self._streams: dict[Host, set[str]] = {}

    def __len__(self) -> int:
        return len(self._owner)

    def get(self, stream: str) -> Host | None:
        """Return the owner of a stream, if it is known."""
        host = self._owner.pop(stream, None)
        if host is not None:
            self._owner[stream] = host  # used last
        return host

    def put(self, stream: str, host: Host) -> None:
        """Take note of an owner."""
        self.drop(stream)
        self._owner[stream] = host
        self._streams.setdefault(host, set()).add(stream)
        if len(self._owner) > self._max:
            self.drop(next(iter(self._owner)))

    def drop(self, stream: str) -> None:
        """Forget the owner of a stream."""
        known = self._owner.pop(stream, None)
        if known is None:
            return
        streams = self._streams[known]
        streams.discard(stream)
        if not streams:
            del self._streams[known]

    def drop_host(self, host: Host) -> None:
        """Forget all that a host owns."""
        for stream in self._streams.pop(host, ()):
            del self._owner[stream]
