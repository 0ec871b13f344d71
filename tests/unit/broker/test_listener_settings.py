"""Settings of one listener go before those of all."""

import re

import pytest

from tailrace.broker.config import NetworkConfig
from tailrace.broker.listener_settings import is_dynamic_listener_setting
from tailrace.core.runtime.config import Assignment, ConfigError, Loaded, load, values_of

LISTENERS = ("listeners", "PLAINTEXT://127.0.0.1:1,A.B://127.0.0.1:2,INTERNAL://127.0.0.1:3")
PROTOCOLS = ("listener.security.protocol.map", "A.B:SSL,INTERNAL:SSL")
KEY = ("ssl.keystore.location", "/common.pem")


def loaded(*given: tuple[str, str]) -> Loaded[NetworkConfig]:
    all_given = (LISTENERS, PROTOCOLS, KEY, *given)
    return load(NetworkConfig, [Assignment(key, value, "test") for key, value in all_given])


def test_a_listener_has_its_own_and_else_the_common_ones() -> None:
    config = loaded(
        ("ssl.truststore.location", "/trust.pem"),
        ("ssl.enabled.protocols", "TLSv1.3"),
        ("listener.name.internal.ssl.client.auth", "required"),
        ("listener.name.a.b.ssl.keystore.location", "/own.p12"),
        ("listener.name.a.b.ssl.keystore.type", "PKCS12"),
        ("listener.name.a.b.ssl.enabled.protocols", "TLSv1.2"),
        ("listener.name.a.b.ssl.principal.mapping.rules", "RULE:^CN=(.*)$/$1/"),
    ).config
    internal, dotted = config.tls_of("INTERNAL"), config.tls_of("A.B")
    assert (str(internal.keystore_location), internal.client_auth) == ("/common.pem", "required")
    assert internal.enabled_protocols == ("TLSv1.3",)
    assert (str(dotted.keystore_location), dotted.keystore_type) == ("/own.p12", "PKCS12")
    assert (dotted.enabled_protocols, dotted.client_auth) == (("TLSv1.2",), "none")
    assert config.principal_rules_of("A.B") == "RULE:^CN=(.*)$/$1/"
    assert config.principal_rules_of("INTERNAL") == "DEFAULT"


def test_they_are_shown_with_their_place_and_without_secrets() -> None:
    name = "listener.name.internal.ssl.keystore.password"
    rows = {row.key: row for row in loaded((name, "geheim")).effective()}
    assert (repr(rows[name].value), rows[name].origin) == ("***", "test")
    assert "geheim" not in repr(rows)


def test_a_tree_is_made_again_of_its_values() -> None:
    config = loaded(("listener.name.internal.ssl.keystore.location", "/own.pem")).config
    again = [Assignment(key, value, "again") for key, value in values_of(config).items()]
    assert load(NetworkConfig, again).config == config


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("listener.name.internal.ssl.nothing", "1", "unknown setting listener.name.internal"),
        ("listener.name.INTERNAL.ssl.client.auth", "none", "unknown setting listener.name.INT"),
        ("listener.name.other.ssl.client.auth", "none", "is not of a listener"),
        ("listener.name.internal.ssl.client.auth", "perhaps", "expected one of none, requested"),
        ("listener.name.internal.ssl.client.auth", "required", "set ssl.truststore.location"),
        ("listener.name.internal.ssl.cipher.suites", "X", "X is not a suite"),
        ("listener.name.internal.ssl.principal.mapping.rules", "X", "'X' is not DEFAULT"),
        ("listener.name.internal.sasl.enabled.mechanisms", "GSSAPI", "(Kerberos) is not served"),
        ("listener.name.internal.sasl.enabled.mechanisms", "scram", "scram is not a mechanism"),
        ("listener.name.internal.sasl.enabled.mechanisms", "", "at least one is needed"),
        ("listener.name.internal.sasl.enabled.mechanisms", "PLAIN,PLAIN", "is there twice"),
    ],
)
def test_what_is_refused(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        loaded((name, value))


def test_a_listener_needs_a_certificate_of_its_own_or_the_common_one() -> None:
    of_one = ("listener.name.internal.ssl.keystore.location", "/own.pem")
    given = [Assignment(key, value, "test") for key, value in (LISTENERS, PROTOCOLS, of_one)]
    with pytest.raises(ConfigError, match=r"A\.B speaks TLS and there is no certificate"):
        load(NetworkConfig, given)


def test_a_listener_has_mechanisms_of_its_own() -> None:
    of_all = ("sasl.enabled.mechanisms", "SCRAM-SHA-512")
    own = ("listener.name.internal.sasl.enabled.mechanisms", "PLAIN")
    network = loaded(of_all, own).config
    found = {name: each.mechanisms for name, each in network.sasl_by_listener.items()}
    assert found.pop("INTERNAL") == ("PLAIN",)
    assert set(found.values()) == {("SCRAM-SHA-512",)}
    assert not is_dynamic_listener_setting("listener.name.internal.sasl.enabled.mechanisms")
