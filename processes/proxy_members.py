"""The write proxies that are registered, as one of them follows them: which of them are gone."""

from tailrace.core.metadata.store import MetadataStore
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.streams import Streams
from tailrace.proxy.routing.hosts import Member
from tailrace.proxy.routing.members import MemberWatch


def follow_members(store: MetadataStore, path: str, streams: Streams) -> MemberWatch:
    """Have streams claimed whose owners' registrations are gone, until the watch is closed.

    A killed proxy's registration goes with its session, as its locks do. One that is back at once
    has a registration beside its former one: that one's end is what counts.
    `path`: of the server set. Errors: none; while the store is away nothing is heard.
    Cost: as `MemberWatch`.
    """
    former: set[Member] = set()

    def on_members(members: list[Member]) -> None:
        for gone in former.difference(members):
            streams.on_proxy_gone(ProxyLocation(gone.shard, gone.host.name, gone.host.port))
        former.clear()
        former.update(members)

    watch = MemberWatch(store, path, on_members)
    watch.start()
    return watch
