"""`tailrace start --secure`: the settings that it stands for. Pure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tailrace.broker.authorization.config import STANDARD_AUTHORIZER
from tailrace.core.runtime.config import Assignment, setting

ADMIN: Final = "admin"
"""The user that is made, and may do everything."""
DIRECTORY: Final = "security"
"""Below `data`."""
SERVER_STORE: Final = "server.pem"
SECURED_LISTENER: Final = "SASL_SSL"
_ORIGIN: Final = "--secure"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureConfig:
    """Whether a broker secures itself."""

    enabled: bool = setting(
        "secure",
        False,
        "Make, at the first start, an authority, a certificate and the user admin below "
        "DATA/security, and set what is not set otherwise: SASL_SSL listeners, an authorizer with "
        "super.users=User:admin, and the same for the HTTP and gRPC ports.",
    )


def secure_settings(data: Path) -> list[Assignment]:
    """Return what `secure` sets; any other source of settings goes before it."""
    settings = {
        "listeners": f"{SECURED_LISTENER}://127.0.0.1:9092",
        "ssl.keystore.location": str(data / DIRECTORY / SERVER_STORE),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
        "admin.http.ssl.enable": "true",
        "admin.http.authentication": "basic",
        "proxy.ssl.enable": "true",
        "proxy.authentication": "basic",
    }
    return [Assignment(key, value, _ORIGIN) for key, value in settings.items()]
