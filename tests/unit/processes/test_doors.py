"""The doors of processes: a reachable one without authentication is refused, or logged."""

import logging
from typing import Any

import pytest

from tailrace.core.runtime.config import Assignment, load
from tailrace.core.security.exposure import OpenDoors, open_doors
from tailrace.processes.bookie_config import BookieProcessConfig
from tailrace.processes.doors import bookie_doors, check_doors, standalone_doors
from tailrace.processes.standalone_config import StandaloneConfig

KEYS = ("ssl.keystore.location=k.pem", "ssl.truststore.location=t.pem")


def config(*given: str) -> StandaloneConfig:
    pairs = (each.partition("=") for each in given)
    return load(
        StandaloneConfig, [Assignment(key, value, "a test") for key, _, value in pairs]
    ).config


@pytest.mark.parametrize(
    ("given", "is_refused"),
    [
        ((), False),
        (("listeners=PLAINTEXT://localhost:1",), False),
        (("listeners=PLAINTEXT://:1",), True),
        (("listeners=PLAINTEXT://10.0.0.1:1",), True),
        (("listeners=A://127.0.0.1:1,B://[::]:2",), True),
        (("listeners=SSL://:1", *KEYS), True),
        (
            ("listeners=SSL://:1", *KEYS, "ssl.client.auth=requested"),
            True,
        ),
        (
            ("listeners=SSL://:1", *KEYS, "ssl.client.auth=required"),
            False,
        ),
        (("admin.http.host=0.0.0.0",), False),
        (("admin.http.host=0.0.0.0", "admin.http.enable=true"), True),
        (
            (
                *("admin.http.host=0.0.0.0", "admin.http.enable=true"),
                "admin.http.authentication=basic",
            ),
            False,
        ),
        (("proxy.listener=10.0.0.1:1",), False),
        (("proxy.listener=10.0.0.1:1", "proxy.enable=true"), True),
    ],
)
def test_what_is_refused(given: tuple[str, ...], *, is_refused: bool) -> None:
    settings = config(*given)
    assert bool(open_doors(standalone_doors(settings))) is is_refused
    if is_refused:
        with pytest.raises(OpenDoors):
            check_doors(standalone_doors(settings), settings.exposure)
    else:
        check_doors(standalone_doors(settings), settings.exposure)


TLS = (
    "tlsProviderFactoryClass=org.apache.bookkeeper.tls.TLSContextFactory",
    "tlsKeyStore=k.pem",
    "tlsTrustStore=t.pem",
)
CERTIFICATES = (*TLS, "tlsClientAuthentication=true")
SASL = (
    "bookieAuthProviderFactoryClass=org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory",
    "saslJaasConfigFile=jaas.conf",
)
OPEN = ("listeningInterface=0.0.0.0", "advertisedAddress=b")


@pytest.mark.parametrize(
    ("given", "is_refused"),
    [
        ((), False),
        (OPEN, True),
        ((*OPEN, *TLS), True),
        ((*OPEN, *CERTIFICATES), False),
        ((*OPEN, *CERTIFICATES, "tlsPlaintextAllowed=true"), True),
        ((*OPEN, *SASL), False),
        (("httpServerHost=0.0.0.0",), False),
        (("httpServerHost=0.0.0.0", "httpServerEnabled=true"), True),
    ],
)
def test_what_is_refused_of_a_bookie(given: tuple[str, ...], *, is_refused: bool) -> None:
    pairs = (each.partition("=") for each in given)
    assignments = [Assignment(key, value, "a test") for key, _, value in pairs]
    settings = load(BookieProcessConfig, assignments).config
    assert bool(open_doors(bookie_doors(settings.bookie))) is is_refused


def test_what_is_insecure_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def lines(*given: str) -> list[Any]:
        caplog.clear()
        settings = config("insecure.listeners=true", *given)
        check_doors(standalone_doors(settings), settings.exposure)
        return [each for each in caplog.records if each.levelno >= logging.WARNING]

    assert lines() == []
    (line,) = lines("listeners=A://:1,B://:2", "admin.http.host=0.0.0.0", "admin.http.enable=true")
    text = line.getMessage()
    assert all(each in text for each in ("A://:1", "B://:2", "admin.http.host=0.0.0.0"))
