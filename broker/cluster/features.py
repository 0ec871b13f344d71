"""The cluster's features (KIP-584): which levels this release can run at, and which hold. Pure.

The levels are fixed: a release runs each feature at the one level that its formats have. So an
update can only ask for what holds. Source: org.apache.kafka.controller.FeatureControlManager.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tailrace.broker.errors import KafkaError
from tailrace.protocol.errors import ErrorCode

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
UPGRADE_TYPES: Final = (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)


class Feature(NamedTuple):
    """One feature. Shape: inclusive."""

    min_level: int
    max_level: int
    finalized: int
    """The level in force; 0: none is."""


FEATURES: Final[Mapping[str, Feature]] = MappingProxyType(
    {
        "group.version": Feature(0, 1, 1),  # KIP-848: groups of the consumer protocol
        "transaction.version": Feature(0, 2, 2),  # KIP-890: each end of a transaction has its epoch
    }
)
"""By Kafka's names. What stands here is what ApiVersions tells clients to use."""


def check_update(
    name: str, level: int, upgrade_type: int, features: Mapping[str, Feature] = FEATURES
) -> None:
    """Refuse to change a level, unless it is the one that holds. Errors: KafkaError."""
    feature = features.get(name)
    if upgrade_type not in UPGRADE_TYPES:
        why = "The controller does not support the given upgrade type."
    elif level < 0:
        why = "A feature version cannot be less than 0."
    elif feature is None:
        why = "No broker of this cluster supports this feature."
    elif not feature.min_level <= level <= feature.max_level:
        why = f"This release only supports versions {feature.min_level}-{feature.max_level}"
    elif level < feature.finalized and upgrade_type == UPGRADE:
        why = (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    elif level != feature.finalized:
        why = f"It is fixed at {feature.finalized} in this release."
    else:
        return
    message = f"Invalid update version {level} for feature {name}. {why}"
    raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
