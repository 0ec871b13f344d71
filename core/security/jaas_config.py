"""Where the names and passwords of DIGEST-MD5 are."""

from dataclasses import dataclass
from pathlib import Path

from tailrace.core.runtime.config import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class JaasConfig:
    """The file of JAAS."""

    file: Path | None = setting(
        "saslJaasConfigFile",
        None,
        "File of JAAS with names and passwords, read once: what Java's processes are given by "
        "-Djava.security.auth.login.config.",
    )
