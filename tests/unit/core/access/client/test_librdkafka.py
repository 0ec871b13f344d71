"""Kafka's settings of clients and librdkafka's: each row of the table, both ways, and no others."""

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.access.client.config import client_config
from tailrace.core.access.client.librdkafka import as_kafka, as_librdkafka
from tailrace.core.access.client.login import login_of
from tailrace.core.runtime.config import ConfigError

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("kafka", "librdkafka"),
    [
        ({}, {}),
        ({"security.protocol": "SSL"}, {"security.protocol": "SSL"}),
        (
            {"ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM"},
            {"ssl.ca.location": "ca.pem"},
        ),
        ({"ssl.truststore.certificates": "PEM"}, {"ssl.ca.pem": "PEM"}),
        (
            {"ssl.keystore.location": "me.pem", "ssl.keystore.type": "PEM"},
            {"ssl.certificate.location": "me.pem", "ssl.key.location": "me.pem"},
        ),
        (
            {
                "ssl.keystore.location": "me.p12",
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.password": "p",
            },
            {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "p"},
        ),
        (
            {"ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "CHAIN"},
            {"ssl.key.pem": "KEY", "ssl.certificate.pem": "CHAIN"},
        ),
        ({"ssl.key.password": "p"}, {"ssl.key.password": "p"}),
        (
            {"ssl.endpoint.identification.algorithm": ""},
            {"ssl.endpoint.identification.algorithm": "none"},
        ),
        (
            {"ssl.endpoint.identification.algorithm": "https"},
            {"ssl.endpoint.identification.algorithm": "https"},
        ),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{SCRAM} required username="a" password="b\\"";',
            },
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "a", "sasl.password": 'b"'},
        ),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
            {"ssl.cipher.suites": "ECDHE-ECDSA-AES128-GCM-SHA256"},
        ),
        ({"sasl.mechanism": "OAUTHBEARER"}, {"sasl.mechanism": "OAUTHBEARER"}),
        ({"client.id": "me", "bootstrap.servers": "h:1"}, {"client.id": "me"}),
    ],
)
def test_each_row(kafka: dict[str, str], librdkafka: dict[str, str]) -> None:
    assert as_librdkafka(kafka) == librdkafka
    if kafka.get("ssl.keystore.type") != "PKCS12":  # what a file is, librdkafka's names do not say
        assert as_librdkafka(as_kafka(librdkafka)) == librdkafka


def test_librdkafka_knows_the_names() -> None:
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{SCRAM} required username="a" password="b";',
        "ssl.endpoint.identification.algorithm": "",
        "ssl.key.password": "p",
    }
    Producer({**as_librdkafka(properties), "bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def test_names_of_librdkafka_that_kafka_has_not() -> None:
    found = as_kafka({"sasl.mechanisms": "PLAIN", "sasl.username": "a", "sasl.password": "b\\"})
    assert found["sasl.mechanism"] == "PLAIN"
    config = client_config(found, "here")
    login = login_of(config.mechanism, config.jaas, "")
    assert (login.user, login.password.reveal()) == ("a", "b\\")


@pytest.mark.parametrize(
    ("translate", "properties", "words"),
    [
        (as_librdkafka, {"ssl.enabled.protocols": "TLSv1.3"}, "ssl.enabled.protocols"),
        (as_librdkafka, {"ssl.truststore.type": "PKCS12"}, "PEM alone"),
        (
            as_librdkafka,
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "sesame"},
            "sasl.jaas.config: the login module is followed by none",
        ),
        (
            as_librdkafka,
            {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f"{SCRAM} required username=a password=sesame tokenauth=true;",
            },
            "delegation tokens",
        ),
        (as_kafka, {"enable.ssl.certificate.verification": "false"}, "always verified"),
        (as_kafka, {"ssl.key.location": "k"}, "belong together"),
        (as_kafka, {"sasl.username": "a", "sasl.mechanisms": "GSSAPI"}, "GSSAPI is not spoken"),
    ],
)
def test_what_cannot_be_said(translate: object, properties: dict[str, str], words: str) -> None:
    assert callable(translate)
    with pytest.raises(ConfigError, match=words) as refused:
        translate(properties)
    assert "sesame" not in str(refused.value)


@given(st.text(), st.text(min_size=1))
def test_any_user_and_password_go_there_and_back(user: str, password: str) -> None:
    given = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password}
    assert as_librdkafka(as_kafka(given)) == given
