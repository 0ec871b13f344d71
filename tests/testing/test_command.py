"""What a broker is started with."""

from pathlib import Path

from tailrace.testing.command import command_line, environment, texts


def test_the_command_line() -> None:
    line = command_line(["tailrace"], Path("/d"), "127.0.0.1:9", texts({"a": 1, "b": True}))
    expected = "tailrace start --data /d --listen 127.0.0.1:9 --test-faults 127.0.0.1:0"
    assert line == [*expected.split(), "--set", "a=1", "--set", "b=true"]


def test_settings_of_the_users_shell_are_not_the_brokers() -> None:
    users = {"PATH": "/bin", "TAILRACE_NUM_PARTITIONS": "3"}
    assert environment(users) == {"PATH": "/bin"}
