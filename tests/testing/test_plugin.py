"""The names and options of the pytest plugin; what it adds to a report is seen in a user's run."""

import re
import time

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.pytest_plugin import security, settings, start_timeout_s, topic_name
from tests.testing.conftest import RUN_TIMEOUT_S, UserPytest

_LEGAL = re.compile(r"[A-Za-z0-9_-]{1,249}")
"""Kafka's legal names, less the dot."""


@given(st.text(max_size=300), st.integers(0, 2**32 - 1))
def test_every_topic_name_is_legal_and_keeps_its_token(test: str, number: int) -> None:
    token = f"{number:08x}"
    name = topic_name(test, token)
    assert _LEGAL.fullmatch(name)
    assert name.endswith(token)
    assert name != topic_name(test, f"{number ^ 1:08x}")


def test_topic_names_are_readable() -> None:
    assert topic_name("test_orders[a/b-1.5]", "0a") == "test_orders-a-b-1-5-0a"


def test_settings_are_key_and_value() -> None:
    assert settings(["a.b=1", " c = d=e "]) == {"a.b": "1", "c": "d=e"}
    with pytest.raises(pytest.UsageError, match=r"'num\.partitions' is not a setting; write"):
        settings(["num.partitions"])


def test_the_security_is_a_protocol() -> None:
    assert security("SASL_SSL") == "SASL_SSL"
    with pytest.raises(pytest.UsageError, match="'TLS' is not one of PLAINTEXT, SSL"):
        security("TLS")


def test_the_start_timeout_is_a_number_of_seconds() -> None:
    assert start_timeout_s("1.5") == 1.5
    for wrong in ("soon", "0", "-1", "inf", "nan"):
        with pytest.raises(pytest.UsageError, match="no number of seconds; write 30"):
            start_timeout_s(wrong)


_FAILS = """
def test_without_a_broker():
    assert False

def test_with_one(tailrace, tailrace_topic):
    assert tailrace_topic.startswith("test_with_one-"), tailrace_topic
    assert tailrace.settings["num.partitions"] == "5"
    assert tailrace.bootstrap == "not this"
"""


def test_a_failed_test_shows_the_log_of_its_broker(user: UserPytest) -> None:
    (user.project / "test_it.py").write_text(_FAILS)
    code, printed = user.run("-o", "tailrace_settings=num.partitions=5")
    assert code == 1
    assert "2 failed" in printed
    before, with_one = printed.split("_ test_with_one _")
    assert "broker's log" not in before
    assert "last lines of the broker's log (tailrace)" in with_one
    assert "ready: bootstrap=127.0.0.1:" in with_one
    assert user.left() == []


def test_a_wrong_option_says_what_to_write(user: UserPytest) -> None:
    (user.project / "test_it.py").write_text("def test_it(tailrace): pass\n")
    code, printed = user.run("-o", "tailrace_start_timeout=soon")
    assert code != 0
    assert "tailrace_start_timeout: 'soon' is no number of seconds; write 30" in printed


def test_who_does_not_use_it_imports_nothing_of_it(user: UserPytest) -> None:
    (user.project / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    assert {n for n in sys.modules if n.startswith('tailrace')}"
        " == {'tailrace', 'tailrace.pytest_plugin'}\n"
    )
    code, printed = user.run()
    assert code == 0, printed


_BREAKS = """
import os, signal
import pytest
from tailrace.testing import BrokerError
from tailrace.testing.metadata import answers

def is_well(broker):
    assert broker.is_running
    assert answers(broker.host, broker.port, 30)
    assert broker._port.ask("GET") == []

@pytest.fixture
def needs_it_to_clear_up(tailrace):
    yield
    is_well(tailrace)

def test_faults(tailrace):
    tailrace.drop_next("Metadata", count=1000)
    tailrace.skew_clock(3600)
    tailrace.fill_disk()

def test_paused(tailrace, needs_it_to_clear_up):
    is_well(tailrace)
    tailrace.delay("Metadata", 60_000)
    tailrace.pause()
    with pytest.raises(BrokerError, match="paused"):
        tailrace.skew_clock(1)

def test_killed(tailrace):
    is_well(tailrace)
    tailrace.kill()

def test_lost(tailrace, tailrace_broker):
    is_well(tailrace)
    tailrace_broker.lose_unsynced()
    tailrace.stop()

@pytest.mark.xfail(strict=True)
def test_broken_in_a_failed_test(tailrace):
    is_well(tailrace)
    tailrace.pause()
    assert False

def test_well(tailrace):
    is_well(tailrace)
"""


def test_what_a_test_breaks_is_whole_for_the_next(user: UserPytest) -> None:
    (user.project / "test_it.py").write_text(_BREAKS)
    code, printed = user.run()
    assert code == 0, printed
    assert "5 passed, 1 xfailed" in printed


_KILLS_THE_GUARDIAN = """
import os, signal, pytest
from pathlib import Path

def test_kills(tailrace):
    guardian = tailrace._guard._guardian.pid
    Path("pids").write_text(f"{guardian} {tailrace.pid}")
    os.kill(guardian, signal.SIGKILL)

def test_another(tmp_path):
    pass

def test_others_need_no_broker(tmp_path):
    pass
"""


def test_a_killed_guardian_fails_one_test_and_leaves_nothing(user: UserPytest) -> None:
    (user.project / "test_it.py").write_text(_KILLS_THE_GUARDIAN)
    code, printed = user.run("-p", "no:randomly")
    assert code == 1, printed
    assert "guardian of the broker" in printed
    assert "3 passed" in printed
    pids = [int(pid) for pid in (user.project / "pids").read_text().split()]
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while any(map(psutil.pid_exists, pids)):  # the kernel kills the broker in its own time
        assert time.monotonic() < deadline, pids
    assert user.left() == []
