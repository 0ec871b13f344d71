"""Which doors are open to others."""

import pytest

from tailrace.core.security.exposure import Door, OpenDoors, is_loopback, open_doors


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("a.localhost", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("::ffff:10.0.0.1", False),
        ("broker1", False),
        ("notlocalhost", False),
        ("localhost.example.com", False),
    ],
)
def test_what_only_the_own_machine_reaches(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_open_is_what_others_reach_without_saying_who_they_are() -> None:
    doors = [
        Door(f"{host}/{is_guarded}", host, is_guarded, "a guard")
        for host in ("127.0.0.1", "0.0.0.0")
        for is_guarded in (True, False)
    ]
    assert open_doors(doors) == doors[3:]


def test_the_refusal_has_the_two_lines_that_would_mend_it() -> None:
    error = OpenDoors([Door("a=0.0.0.0", "0.0.0.0", is_guarded=False, remedy="a guard")])
    assert "a=0.0.0.0" in str(error)
    first, second = error.remedy.splitlines()
    assert first == "a guard"
    assert "--insecure" in second
