"""Settings of delegation tokens, by Kafka's names."""

from dataclasses import dataclass

from tailrace.core.runtime.config import AtLeastOne, Secret, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensConfig:
    """Whether there are delegation tokens, and how long they live."""

    secret_key: Secret = setting(
        "delegation.token.secret.key",
        Secret(""),
        "What the passwords of delegation tokens are made with: the same for all brokers of a "
        "cluster, and long. Without it there are no tokens; with another all that are there are "
        "worth nothing.",
    )
    lifetime_ms_max: AtLeastOne = setting(
        "delegation.token.max.lifetime.ms",
        604_800_000,
        "How long a token can be renewed.",
    )
    renewal_ms: AtLeastOne = setting(
        "delegation.token.expiry.time.ms",
        86_400_000,
        "How long a token can be used before it has to be renewed.",
    )
    check_ms: AtLeastOne = setting(
        "delegation.token.expiry.check.interval.ms",
        3_600_000,
        "How often tokens that have expired are removed. They are worth nothing before that, too.",
    )
