"""Fixtures for pytest: `tailrace`, `tailrace_topic`, `tailrace_broker`. Loaded by its entry point.

Nothing of `tailrace.testing` is imported until a test asks for a broker.
"""

import re
import sys
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tailrace.testing import Broker, BrokerError
    from tailrace.testing.security import Protocol

_STARTED = pytest.StashKey[list["Broker"]]()
"""The brokers of this plugin's fixtures."""
_SETTINGS = "tailrace_settings"
_SECURITY = "tailrace_security"
_PROTOCOLS: "Final[tuple[Protocol, ...]]" = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_START_TIMEOUT = "tailrace_start_timeout"
_LOG_LINES_MAX = 60
_TOPIC_CHARS_MAX = 80
"""Of the test's name: Kafka allows 249 characters, and people read these."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that pyproject.toml may give below [tool.pytest.ini_options]."""
    parser.addini(
        _SETTINGS,
        "settings of every tailrace broker, key=value, as with `tailrace start --set`",
        type="linelist",
        default=[],
    )
    parser.addini(
        _SECURITY,
        f"how clients of every tailrace broker speak: {', '.join(_PROTOCOLS)}; "
        "`client_settings()` says how they get in",
        default="PLAINTEXT",
    )
    parser.addini(_START_TIMEOUT, "seconds that a tailrace broker may take to start", default="30")


@pytest.fixture(scope="session")
def tailrace(pytestconfig: pytest.Config) -> Iterator["Broker"]:
    """Start a broker for all tests of the session; under pytest-xdist, one for each worker."""
    with _broker(pytestconfig) as broker:
        yield broker


@pytest.fixture
def tailrace_broker(pytestconfig: pytest.Config) -> Iterator["Broker"]:
    """Start a broker for this test alone, which may stop, kill, pause and restart it."""
    with _broker(pytestconfig) as broker:
        yield broker


@pytest.fixture
def tailrace_topic(request: pytest.FixtureRequest) -> str:
    """Return a topic name made of the test's, which nobody had before.

    The topic is not created: the first produce does that (`auto.create.topics.enable`), or a
    client's admin when the number of partitions matters.
    """
    return topic_name(request.node.name, uuid.uuid4().hex[:8])


def topic_name(test: str, token: str) -> str:
    """Return a legal topic name that shows the test's name and ends with the token.

    Dots are replaced too: Kafka warns of names that differ in dots and underscores only.
    """
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", test)[:_TOPIC_CHARS_MAX].strip("-")
    return f"{readable}-{token}" if readable else token


def settings(lines: list[str]) -> Mapping[str, str]:
    """Return settings by name. Errors: UsageError for a line that is not key=value."""
    found: dict[str, str] = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise pytest.UsageError(
                f"{_SETTINGS}: {line!r} is not a setting; write it as num.partitions=3"
            )
        found[name.strip()] = value.strip()
    return found


def security(text: str) -> "Protocol":
    """Return the protocol. Errors: UsageError if it is not one."""
    for protocol in _PROTOCOLS:
        if text == protocol:
            return protocol
    raise pytest.UsageError(f"{_SECURITY}: {text!r} is not one of {', '.join(_PROTOCOLS)}")


def start_timeout_s(text: str) -> float:
    """Return the seconds. Errors: UsageError if they are none."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise pytest.UsageError(f"{_START_TIMEOUT}: {text!r} is no number of seconds; write 30")
    return seconds


@contextmanager
def _broker(config: pytest.Config) -> Iterator["Broker"]:
    from tailrace.testing import Broker  # most test runs start none

    with Broker(
        settings=settings(config.getini(_SETTINGS)),
        security=security(config.getini(_SECURITY)),
        start_timeout_s=start_timeout_s(config.getini(_START_TIMEOUT)),
    ) as broker:
        started = config.stash.setdefault(_STARTED, [])
        started.append(broker)
        try:
            yield broker
        finally:
            if broker in started:
                started.remove(broker)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Undo what the test did to its brokers, before fixtures clear up: they may need them."""
    failure = _make_whole(item.config.stash.get(_STARTED, []))
    result = yield
    if failure is not None:
        raise failure
    return result


def _make_whole(started: "list[Broker]") -> "BrokerError | None":
    """Have brokers run without faults; return why one of them cannot, which is left alone then."""
    if not started:
        return None
    from tailrace.testing import BrokerError

    failure = None
    for broker in list(started):
        try:
            broker.undo_faults()
            broker.start()  # if it was killed or stopped
        except BrokerError as error:
            failure = error
            started.remove(broker)  # fails this test, and not all that follow
    return failure


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of the log of every broker that a failed test was given."""
    report = yield
    if report.failed:
        report.sections.extend(_log_sections(item))
    return report


def _log_sections(item: pytest.Item) -> Iterator[tuple[str, str]]:
    arguments = getattr(item, "funcargs", None) or {}
    module = sys.modules.get("tailrace.testing")
    if module is None:  # then no argument is a broker
        return
    for name, value in arguments.items():
        if isinstance(value, module.Broker):
            lines = value.log.splitlines()[-_LOG_LINES_MAX:]
            yield f"last lines of the broker's log ({name})", "\n".join(lines)
