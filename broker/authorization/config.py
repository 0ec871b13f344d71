"""Settings of the authorizer, by Kafka's names."""

from dataclasses import dataclass
from typing import Final

from tailrace.core.access.audit import AuditLevel
from tailrace.core.runtime.config import ConfigError, setting

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationConfig:
    """What decides, and what holds before any ACL. Errors: ConfigError."""

    authorizer_class: str = setting(
        "authorizer.class.name",
        "",
        f"{STANDARD_AUTHORIZER}: clients may do what ACLs allow, as in Kafka. Empty: everybody may "
        "do everything. The same for all brokers of a cluster.",
    )
    super_users_text: str = setting(
        "super.users",
        "",
        "Principals that may do everything, whatever ACLs say: User:admin;User:CN=broker,O=Example",
    )
    allow_everyone_without_acl: bool = setting(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether everybody may do everything with a resource that no ACL matches.",
    )

    audit_log: str = setting(
        "audit.log",
        "",
        "Where decisions are noted, as lines of JSON: a file, or stderr. Empty: nowhere.",
    )
    audit_level: AuditLevel = setting(
        "audit.level",
        AuditLevel.DENIED,
        "What is noted: denied (requests, and attempts to log in), all, or off.",
    )

    def __post_init__(self) -> None:
        if self.authorizer_class not in {"", STANDARD_AUTHORIZER}:
            raise ConfigError(
                f"authorizer.class.name: {self.authorizer_class} is not served; "
                f"{STANDARD_AUTHORIZER} is, or nothing"
            )
        for each in self.super_users:
            if ":" not in each:
                raise ConfigError(f"super.users: {each} is not a principal; write User:{each}")

    @property
    def enabled(self) -> bool:
        """Whether ACLs decide."""
        return bool(self.authorizer_class)

    @property
    def super_users(self) -> tuple[str, ...]:
        """Principals that may do everything."""
        parts = map(str.strip, self.super_users_text.split(";"))
        return tuple(each for each in parts if each)
