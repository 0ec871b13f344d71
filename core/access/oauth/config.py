"""Settings of OAUTHBEARER, under Kafka's names (BrokerSecurityConfigs, SaslConfigs)."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from tailrace.core.runtime.config import AtLeastOne, NotNegative, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """Which tokens are accepted, and where the keys are that they are signed with."""

    jwks_url: str = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        "",
        "Where the public keys of the tokens' issuer are, a JWK set: https:, http: or file:. "
        "Without it no token can be checked.",
    )
    refresh_ms: AtLeastOne = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "How often the keys are read again.",
    )
    retry_ms: AtLeastOne = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        "Pause after keys could not be read; each is twice the one before.",
    )
    retry_ms_max: AtLeastOne = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        10_000,
        "Longest such pause. Also the shortest time between readings of the keys because a token "
        "names a key that is not among them.",
    )
    expected_audience: tuple[str, ...] = setting(
        "sasl.oauthbearer.expected.audience",
        (),
        "A token has to be for one of these (aud). Without any, a token that names an audience is "
        "refused.",
    )
    expected_issuer: str = setting(
        "sasl.oauthbearer.expected.issuer",
        "",
        "The issuer that a token has to name (iss); empty takes any, if one of the keys signed.",
    )
    clock_skew_s: NotNegative = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "How far the clocks of issuers and brokers may differ.",
    )
    scope_claim: str = setting(
        "sasl.oauthbearer.scope.claim.name", "scope", "The claim that has a token's scope."
    )
    subject_claim: str = setting(
        "sasl.oauthbearer.sub.claim.name", "sub", "The claim that names the user."
    )

    def __post_init__(self) -> None:
        if self.jwks_url and not _is_url(self.jwks_url):
            raise ValueError(
                f"sasl.oauthbearer.jwks.endpoint.url: {self.jwks_url!r} is not a URL of "
                "https:, http: or file:, with a host or an absolute path"
            )
        if self.retry_ms > self.retry_ms_max:
            raise ValueError(
                "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms is above its maximum, "
                "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
            )
        if not (self.scope_claim.strip() and self.subject_claim.strip()):
            raise ValueError(
                "sasl.oauthbearer.scope.claim.name and sasl.oauthbearer.sub.claim.name need names"
            )


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    if parts.scheme == "file":
        return parts.netloc in ("", "localhost") and parts.path.startswith("/")
    return parts.scheme in ("https", "http") and bool(parts.hostname) and has_port
