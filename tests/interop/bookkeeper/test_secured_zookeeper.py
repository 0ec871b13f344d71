"""Apache's bookie and shell beside our processes in a ZooKeeper that knows its clients."""

from pathlib import Path

import pytest

from tailrace.core.metadata.zookeeper_acls import ALL, Grant
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import output
from tests.cluster.three_bookies import ClusterBroker
from tests.interop.bookkeeper.java import JavaBookie, JavaShell
from tests.secure_zookeeper import USERS, SaslZooKeeper, access, acls_below, jaas, settings_file

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.timeout(300)]

OWN = frozenset({Grant(ALL, "sasl", "tailrace")})


def test_one_cluster_of_both_with_the_same_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_file(tmp_path / "zookeeper.toml")
    monkeypatch.setenv("TAILRACE_ZOOKEEPER_CONFIG", str(settings))
    client = tmp_path / "client.jaas"
    client.write_text(jaas("Client", {"username": "tailrace", "password": USERS["tailrace"]}))
    zookeeper = SaslZooKeeper(tmp_path / "zookeeper").start()
    # Set from here on: the server's own option would come second, and not count.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.auth.login.config={client}")
    uri = f"zk+hierarchical://{zookeeper.hosts}/ledgers"
    theirs = JavaBookie(tmp_path / "java", uri, settings=("zkEnableSecurity=true",))
    ours = BookieUnderTest(uri, tmp_path / "ours", "--config", str(settings))
    namespace = f"distributedlog://{zookeeper.hosts}/messaging/both"
    two = ("--set", "default.replication.factor=2")
    broker = ClusterBroker(uri, namespace, "--config", str(settings), *two)
    shell = JavaShell(tmp_path / "shell.log")
    try:
        output("cluster", "init", "--metadata", uri)
        theirs.start()
        ours.start()
        broker.start()
        where = broker.bootstrap
        output("topic", "create", "greetings", bootstrap=where)
        output("produce", "greetings", bootstrap=where, stdin=b"hello\n")
        read = output("consume", "greetings", "-o", "start", "-e", bootstrap=where)
        assert read == b"hello\n"
        listed = shell(uri, tmp_path, "listbookies", "-rw")
        assert theirs.bookie_id in listed
        assert ours.bookie_id in listed
        assert "ledgerID: " in shell(uri, tmp_path, "listledgers")
        assert ours.bookie_id in shell(uri, tmp_path, "cookie_get", ours.bookie_id)
        assert theirs.bookie_id in output("cluster", "show", "--metadata", uri).decode()
        acls = acls_below(zookeeper.hosts, "/ledgers", access("super"))
        assert f"/ledgers/cookies/{theirs.bookie_id}" in acls
        assert f"/ledgers/available/{theirs.bookie_id}" in acls
        assert set(acls.values()) == {OWN}
        # What Java's tools make without zkEnableSecurity is found, and secured.
        shell(uri, tmp_path, "lostbookierecoverydelay", "-set", "60")
        assert set(acls_below(zookeeper.hosts, "/ledgers", access("super")).values()) != {OWN}
        output("cluster", "secure", "--metadata", uri)
        assert set(acls_below(zookeeper.hosts, "/ledgers", access("super")).values()) == {OWN}
    finally:
        shell.close()
        broker.close()
        ours.close()
        theirs.stop()
        zookeeper.stop()
