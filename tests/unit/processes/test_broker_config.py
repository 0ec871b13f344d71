"""How brokers get in to each other, as settings say it: what contradicts itself is refused."""

import pytest

from tailrace.broker.listeners import SecurityProtocol
from tailrace.core.runtime.config import ConfigError, load, shown
from tailrace.core.runtime.config_sources import from_arguments
from tailrace.processes.broker_config import BrokerProcessConfig

JAAS = (
    "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="broker" password="sesame";'
)
OF_LISTENER = f"listener.name.sasl_plaintext.scram-sha-256.{JAAS}"
LISTENERS = ("listeners=PLAINTEXT://:9092,SASL_PLAINTEXT://:9093",)


def loaded(*arguments: str) -> BrokerProcessConfig:
    return load(BrokerProcessConfig, from_arguments([*LISTENERS, *arguments])).config


@pytest.mark.parametrize(
    ("arguments", "protocol"),
    [
        ((), SecurityProtocol.PLAINTEXT),
        (("inter.broker.listener.name=SASL_PLAINTEXT", JAAS), SecurityProtocol.SASL_PLAINTEXT),
        (("security.inter.broker.protocol=SASL_PLAINTEXT", JAAS), SecurityProtocol.SASL_PLAINTEXT),
        (("security.inter.broker.protocol=PLAINTEXT",), SecurityProtocol.PLAINTEXT),
        (
            ("inter.broker.listener.name=SASL_PLAINTEXT", OF_LISTENER),
            SecurityProtocol.SASL_PLAINTEXT,
        ),
    ],
)
def test_which_listener_brokers_use(arguments: tuple[str, ...], protocol: SecurityProtocol) -> None:
    assert loaded(*arguments).broker.network.inter_broker_security is protocol


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("security.inter.broker.protocol=SASL_PLAINTEXT",),
            "sasl.jaas.config: SCRAM-SHA-256 need",
        ),
        (("security.inter.broker.protocol=SSL",), "SSL is none of the listeners"),
        (
            ("security.inter.broker.protocol=PLAINTEXT", "inter.broker.listener.name=PLAINTEXT"),
            "set one of them",
        ),
        (
            (
                "inter.broker.listener.name=SASL_PLAINTEXT",
                "sasl.mechanism.inter.broker.protocol=GSSAPI",
                JAAS,
            ),
            "sasl.mechanism.inter.broker.protocol: GSSAPI is not spoken",
        ),
        (
            (
                "inter.broker.listener.name=SASL_PLAINTEXT",
                "sasl.mechanism.inter.broker.protocol=PLAIN",
                JAAS,
            ),
            "PLAIN goes with org.apache.kafka.common.security.plain.PlainLoginModule",
        ),
        (
            ("inter.broker.listener.name=SASL_PLAINTEXT", JAAS.removesuffix(";")),
            "does not end with a semicolon",
        ),
        (
            (
                "inter.broker.listener.name=SASL_PLAINTEXT",
                JAAS.replace("password", 'user_alice="sesame" password'),
            ),
            "tailrace user create makes them",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_shows_no_password(
    arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        loaded(*arguments)
    assert "sesame" not in str(refused.value)


def test_what_the_listener_has_of_its_own_goes_first() -> None:
    other = JAAS.replace("broker", "another")
    config = loaded("inter.broker.listener.name=SASL_PLAINTEXT", other, OF_LISTENER)
    assert config.broker.login_to_others().user == "broker"


def test_the_password_is_not_among_the_settings_that_are_shown() -> None:
    given = load(BrokerProcessConfig, from_arguments([*LISTENERS, JAAS, OF_LISTENER]))
    rows = {row.key: f"{shown(row.value)} {row.origin}" for row in given.effective()}
    assert rows["sasl.jaas.config"] == "*** --set sasl.jaas.config"
    assert rows[OF_LISTENER.partition("=")[0]].startswith("*** ")
    assert "sesame" not in "".join(rows.values()) + repr(given)
