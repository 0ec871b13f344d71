"""Security of bookies in the settings of processes."""

from pathlib import Path

import pytest

from tailrace.bookie import security_config as of_bookie
from tailrace.core.ledger import security_config as of_client
from tailrace.core.runtime.config import Assignment, ConfigError, load
from tailrace.core.security.bookkeeper_tls_config import FACTORY
from tailrace.processes.autorecovery_config import AutoRecoveryProcessConfig
from tailrace.processes.bookie_config import BookieProcessConfig
from tailrace.processes.broker_config import BrokerProcessConfig
from tailrace.processes.proxy_config import ReadProxyConfig, WriteProxyConfig
from tailrace.processes.standalone_config import StandaloneConfig

OF_CLIENTS = {
    "tlsProviderFactoryClass": FACTORY,
    "tlsTrustStore": "ca.pem",
    "clientAuthProviderFactoryClass": of_client.SASL_FACTORY,
    "saslJaasConfigFile": "jaas.conf",
}


def given(settings: dict[str, str]) -> list[Assignment]:
    return [Assignment(key, value, "test") for key, value in settings.items()]


@pytest.mark.parametrize(
    "kind", [BrokerProcessConfig, ReadProxyConfig, WriteProxyConfig, AutoRecoveryProcessConfig]
)
def test_clients_of_bookies(kind: type) -> None:
    security = load(kind, given(OF_CLIENTS)).config.bookies.security
    assert security.tls.is_enabled
    assert security.tls.truststore == Path("ca.pem")
    assert security.auth.factory == of_client.SASL_FACTORY
    assert security.jaas.file == Path("jaas.conf")


def test_a_bookie_comes_to_others_by_its_own_files() -> None:
    settings = {**OF_CLIENTS, "bookieAuthProviderFactoryClass": of_bookie.SASL_FACTORY}
    config = load(BookieProcessConfig, given(settings)).config
    security = config.client_config().security
    assert security.tls == config.bookie.security.tls
    assert security.jaas == config.bookie.security.jaas
    assert security.auth.factory == of_client.SASL_FACTORY


def test_the_bookie_of_a_standalone_broker_does_not_listen() -> None:
    for setting in ("tlsProviderFactoryClass", "tlsTrustStore", "saslJaasConfigFile"):
        with pytest.raises(ConfigError, match="are of bookies that listen"):
            load(StandaloneConfig, given({setting: OF_CLIENTS[setting]}))
