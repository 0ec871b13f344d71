"""The doors of each kind of process, and what is done about open ones when it starts."""

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tailrace.core.security.exposure import Door, ExposureConfig, OpenDoors, open_doors

if TYPE_CHECKING:
    from tailrace.bookie.config import BookieConfig
    from tailrace.bookie.config import HttpConfig as BookieHttpConfig
    from tailrace.broker.config import BrokerConfig
    from tailrace.processes.health_http import HealthHttpConfig
    from tailrace.processes.proxy_address import ProxyAddressConfig
    from tailrace.processes.standalone_config import StandaloneConfig
    from tailrace.proxy.service.config import GrpcConfig

logger = logging.getLogger(__name__)


def check_doors(doors: Iterable[Door], exposure: ExposureConfig) -> None:
    """Refuse doors that are open to others, or say so. Errors: OpenDoors."""
    found = open_doors(doors)
    if found and not exposure.is_insecure:
        raise OpenDoors(found)
    if found:
        logger.warning(
            "insecure: whoever reaches these may do everything: %s",
            ", ".join(each.setting for each in found),
        )


def broker_doors(config: "BrokerConfig") -> Iterator[Door]:
    """Return the doors of a broker: its Kafka listeners and its HTTP port."""
    network, http = config.network, config.http
    for listener in network.parsed_listeners:
        protocol = network.protocols[listener.name].value
        by_certificate = (
            protocol == "SSL" and network.tls_of(listener.name).client_auth == "required"
        )
        yield Door(
            setting=f"listeners={listener}",
            host=listener.host,
            is_guarded=protocol.startswith("SASL_") or by_certificate,
            remedy=f"listeners=SASL_SSL://{str(listener).partition('://')[2]} with "
            "ssl.keystore.location",
        )
    if http.enabled:
        yield Door(
            setting=f"admin.http.host={http.host}",
            host=http.host,
            is_guarded=bool(http.authentication),
            remedy="admin.http.authentication=basic with admin.http.ssl.enable=true",
        )


def proxy_doors(
    address: "ProxyAddressConfig", grpc: "GrpcConfig", http: "HealthHttpConfig | None" = None
) -> Iterator[Door]:
    """Return the doors of a proxy: its gRPC port, and the one for its health."""
    yield Door(
        setting=f"proxy.listener={address.listener}",
        host=address.at.host,
        is_guarded=bool(grpc.authentication),
        remedy="proxy.authentication=basic with proxy.ssl.enable=true",
    )
    if http is not None:
        yield from health_doors(http)


def bookie_doors(config: "BookieConfig") -> Iterator[Door]:
    """Return the doors of a bookie: its own port, and the one for its health."""
    security, http = config.security, config.http
    by_certificate = security.needs_tls and security.tls.client_authentication
    yield Door(
        setting=f"listeningInterface={config.host}",
        host=config.host,
        is_guarded=bool(security.factory) or by_certificate,
        remedy="tlsProviderFactoryClass with tlsClientAuthentication=true, or "
        "bookieAuthProviderFactoryClass",
    )
    yield from health_doors(http)


def health_doors(http: "HealthHttpConfig | BookieHttpConfig") -> Iterator[Door]:
    """Return the door for a process' health, if there is one."""
    if http.enabled:
        yield Door(
            setting=f"httpServerHost={http.host}",
            host=http.host,
            is_guarded=http.tls.needs_certificates,
            remedy="httpServerTlsEnable=true with httpServerKeyStorePath, httpServerTrustStorePath",
        )


def standalone_doors(config: "StandaloneConfig") -> Iterator[Door]:
    """Return the doors of a process that is everything; its bookie has none."""
    yield from broker_doors(config.broker)
    if config.proxy.enabled:
        yield from proxy_doors(config.proxy.address, config.proxy.grpc)
