"""What is public is listed in one place, and changes only when somebody changes the list."""

from importlib import import_module

from tests.rooms import ROOMS
from tests.unit.public_api import OURS, PAGE, STORED, described, modules, public_names, signatures


def test_signatures_are_those_that_are_promised() -> None:
    wanted = STORED.read_text().splitlines()
    found = described().splitlines()
    remedy = "if the change is wanted: python -m tests.unit.public_api, and a line in CHANGELOG.md"
    assert found == wanted, remedy


def test_what_is_not_public_is_named_so() -> None:
    _, _, rest = PAGE.read_text().partition("Everything else in `tailrace`")
    assert {room for room in ROOMS if f"`tailrace.{room}`" not in rest} == set()
    assert not {room for room in ROOMS if f"tailrace.{room}" in modules()}


def test_types_of_ours_in_public_signatures_are_public() -> None:
    used = {each for line in signatures() for each in OURS.findall(line)}
    assert used - public_names() == set()


def test_every_public_name_says_what_it_is() -> None:
    silent = [name for name, value in _names() if callable(value) and not value.__doc__]
    assert silent == []


def _names() -> list[tuple[str, object]]:
    found = [(name, import_module(name)) for name in modules()]
    return [
        (f"{name}:{each}", getattr(module, each))
        for name, module in found
        for each in module.__all__
    ]
