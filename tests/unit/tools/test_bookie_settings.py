"""How the commands come to bookies: file, environment, and what is another's."""

from pathlib import Path

import pytest

from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.security.bookkeeper_tls_config import FACTORY
from tailrace.tools.cluster.bookie_settings import CONFIG_VARIABLE, bookie_settings
from tailrace.tools.errors import CliError


def test_a_file_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bookie_settings() == BookieClientConfig()
    file = tmp_path / "bookies.toml"
    file.write_text(f"""
        listeners = "PLAINTEXT://:9092"
        tlsProviderFactoryClass = "{FACTORY}"
        tlsTrustStore = "ca.pem"
        bookieRequestTimeoutMs = 7
    """)
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    monkeypatch.setenv("TAILRACE_TLSTRUSTSTORE", "other.pem")
    monkeypatch.setenv("TAILRACE_SOMETHING_ELSE", "x")
    found = bookie_settings()
    assert found.security.tls.is_enabled
    assert found.security.tls.truststore == Path("other.pem")
    assert found.request_timeout_ms == 7


def test_what_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_TLSTRUSTSTORETYPE", "JKS")
    with pytest.raises(CliError, match="JKS is not read"):
        bookie_settings()
    monkeypatch.delenv("TAILRACE_TLSTRUSTSTORETYPE")
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "missing.toml"))
    with pytest.raises(CliError, match=r"missing\.toml"):
        bookie_settings()
