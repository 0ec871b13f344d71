"""Kafka's access control model: resources, operations, access control entries. Pure.

Codes and names are those of the wire and of Kafka's tools.
Source: org.apache.kafka.common.acl, org.apache.kafka.common.resource; KIP-11, KIP-290.
"""

from enum import IntEnum
from typing import Final, NamedTuple

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
WILDCARD: Final = "*"
"""As a literal pattern: every resource of its type; as a host: every address."""
ANY_PRINCIPAL: Final = "User:*"


class ResourceType(IntEnum):
    """What can be accessed."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a pattern's name is compared with a resource's."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What can be done with it."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """What an entry says."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Pattern(NamedTuple):
    """The resources that an entry is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType


class Entry(NamedTuple):
    """What one principal may do, or may not, from one host."""

    principal: str
    """TYPE:NAME, as `User:alice`."""
    host: str
    operation: Operation
    permission: Permission


class Acl(NamedTuple):
    """An access control list's element: Kafka's AclBinding."""

    pattern: Pattern
    entry: Entry
