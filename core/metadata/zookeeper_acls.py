"""Whose a node in ZooKeeper is, by its path. Pure.

A secured cluster's nodes belong to who makes them. The world may read what lies in a namespace, as
DistributedLog's readers expect; never the ledgers' metadata, which has their passwords (BookKeeper,
`zkEnableSecurity`), and never what a Kafka cluster keeps: users, access lists, tokens, configs.
Source: DistributedLog DLUtils EVERYONE_READ_CREATOR_ALL_ACL; BookKeeper ZkUtils.getACLs; Kafka
ZkData.defaultAcls.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tailrace.core.metadata.layout import KAFKA_CLUSTER
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig, parse_users

READ: Final = 1
ALL: Final = 31
"""Read, write, create, delete, admin."""


class Grant(NamedTuple):
    """One line of a node's ACL."""

    permissions: int
    scheme: str
    name: str


WORLD_ALL: Final = Grant(ALL, "world", "anyone")
WORLD_READ: Final = Grant(READ, "world", "anyone")
CREATOR_ALL: Final = Grant(ALL, "auth", "")
"""The servers write every identity of the session in its place."""

OPEN: Final = (WORLD_ALL,)


@dataclass(frozen=True, slots=True)
class ZookeeperAccess:
    """How a process comes to ZooKeeper, and what it lets others do with the nodes that it makes."""

    config: ZookeeperSecurityConfig = field(default_factory=ZookeeperSecurityConfig)
    readable: str = ""
    """Root of a namespace: the world may read what lies there. Nothing else if it is empty."""

    def acl(self, path: str) -> tuple[Grant, ...]:
        """Return the ACL with which a node is made."""
        return self.owned(path) if self.config.set_acl else OPEN

    def owned(self, path: str) -> tuple[Grant, ...]:
        """Return the ACL of a node in a secured cluster."""
        others = (Grant(ALL, scheme, name) for scheme, name in parse_users(self.config.acl_users))
        world = (WORLD_READ,) if self.is_readable(path) else ()
        return (CREATOR_ALL, *others, *world)

    def is_readable(self, path: str) -> bool:
        """Whether the world may read a node."""
        if not self.readable or path == self.readable:
            return bool(self.readable)
        below = path.removeprefix(f"{self.readable}/")
        return below != path and below.partition("/")[0] != KAFKA_CLUSTER


PLAIN: Final = ZookeeperAccess()
"""Without credentials, without TLS, nodes open to all: ZooKeeper as it is installed."""


def is_open(acl: Iterable[Grant], *, readable: bool) -> bool:
    """Whether the world may do more with a node than it should. `readable`: it should read it."""
    allowed = READ if readable else 0
    return any(each.scheme == "world" and each.permissions & ~allowed for each in acl)


def resolved(wanted: Sequence[Grant], own: Sequence[Grant]) -> frozenset[Grant]:
    """Return what the servers make of an ACL. `own`: what they made of CREATOR_ALL alone."""
    found = {each for each in wanted if each != CREATOR_ALL}
    return frozenset(found.union(own) if CREATOR_ALL in wanted else found)
