"""The commands at a broker that speaks TLS: one file says how to get in, and no output shows it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.tools.errors import Exit
from tests.certificates import Authority
from tests.cluster.cli import output, refusal, tailrace
from tests.ports import free_port
from tests.process import TailraceProcess


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "keys")


@pytest.fixture
def mutual(broker_factory: Callable[..., TailraceProcess], authority: Authority) -> TailraceProcess:
    """Return a broker that asks for certificates of clients."""
    broker = broker_factory(
        *("--set", f"ssl.keystore.location={authority.store('broker', '127.0.0.1')}"),
        *("--set", f"ssl.truststore.location={authority.certificate}"),
        *("--set", "ssl.client.auth=required"),
    )
    return broker.start(f"SSL://127.0.0.1:{free_port()}")


def test_every_kind_of_command_gets_in_by_the_file(
    mutual: TailraceProcess, authority: Authority, tmp_path: Path
) -> None:
    store = authority.pkcs12("alice", "sesame")
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SSL\n"
        f"ssl.truststore.location={authority.certificate}\n"
        f"ssl.keystore.location={store}\n"
        "ssl.keystore.password=sesame\n"
    )
    shown = [mutual.output]

    def run(*words: str, stdin: bytes = b"") -> bytes:
        command = (*words, "--command-config", str(file))
        done = tailrace(*command, stdin=stdin, bootstrap=mutual.bootstrap)
        assert done.returncode == 0, done.stderr.decode()
        shown.append(done.stdout.decode() + done.stderr.decode())
        return done.stdout

    run("topic", "create", "greetings")
    run("produce", "greetings", "-K:", stdin=b"k:hello\n")
    assert run("consume", "greetings", "-o", "start", "-e") == b"hello\n"
    assert run("consume", "greetings", "-G", "readers", "-c", "1") == b"hello\n"
    (group,) = json.loads(run("group", "list", "--json"))
    assert group["group"] == "readers"
    run("txn", "list")
    (partition,) = json.loads(run("restore", "greetings", "--verify", "--json"))["partitions"]
    assert partition["live_keys"] == 1
    assert "sesame" not in "".join(shown)


def test_a_client_that_is_not_trusted_or_trusts_another_is_told_so_at_once(
    mutual: TailraceProcess, authority: Authority, tmp_path: Path
) -> None:
    trusting = ("-X", "security.protocol=SSL", "-X", f"ssl.ca.location={authority.certificate}")
    for command in (("topic", "list"), ("group", "list")):
        done = tailrace(*command, *trusting, bootstrap=mutual.bootstrap)
        # whether the broker's alert comes before the end of its connection is up to the system
        assert done.returncode in (Exit.FAILED, Exit.UNREACHABLE)
        assert b"ssl.keystore.location" in done.stderr
    stranger = Authority(tmp_path / "others")
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SSL\nssl.truststore.location={stranger.certificate}\n")
    words = ("topic", "list", "--command-config", str(file))
    assert "CERTIFICATE_VERIFY_FAILED" in refusal(1, *words, bootstrap=mutual.bootstrap)


def test_both_names_of_properties_get_in(mutual: TailraceProcess, authority: Authority) -> None:
    store = authority.store("alice")
    given = {
        "security.protocol": "SSL",
        "ssl.ca.location": authority.certificate,
        "ssl.certificate.location": store,
        "ssl.key.location": store,
    }
    options = [word for name, value in given.items() for word in ("-X", f"{name}={value}")]
    output("topic", "list", *options, bootstrap=mutual.bootstrap)
    output("group", "list", *options, bootstrap=mutual.bootstrap)


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    words = ("topic", "list", "--command-config", str(file))
    assert f"{file}: No such file" in refusal(2, *words)
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=sesame")
    text = refusal(2, *words)
    assert "sasl.jaas.config: the login module is followed by none" in text
    assert "sesame" not in text
    file.write_text("security.protocol=SSL\nssl.enabled.protocols=TLSv1.3")
    assert "ssl.enabled.protocols: librdkafka" in refusal(2, *words)
