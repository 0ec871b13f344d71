"""Commands that are too heavy to run for a page: what their words name is there."""

import re
import shlex
import sys
import tomllib
from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch

import yaml

from tailrace.processes.secure_config import DIRECTORY
from tailrace.processes.secure_start import JAVA, LIBRDKAFKA, TRUSTED
from tests.bench import __main__ as bench
from tests.docs.command_line import check_words
from tests.fuzz.targets import TARGETS
from tests.interop.kafka.tools import MAIN_CLASSES
from tests.rooms import ROOMS, ROOT

Words = tuple[str, ...]
_MAKEFILE: Final = (ROOT / "Makefile").read_text()
_PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_IMAGE: Final = "tailrace"
_OTHER_IMAGES: Final = re.compile(r"zookeeper:\d[\d.]*")


def check(words: Words) -> None:
    """Check one command. Errors: AssertionError, or what its parser raises."""
    checker = _CHECKERS.get(words[0])
    assert checker is not None, f"no check is known for {words[0]}"
    checker(words)


def _make(words: Words) -> None:
    target, *assigned = words[1:]
    assert re.search(rf"^{target}:.*##", _MAKEFILE, re.MULTILINE), f"no target {target}"
    recipe = re.split(rf"^{target}:.*", _MAKEFILE, flags=re.MULTILINE)[1].split("\n\n")[0]
    variables = dict(each.split("=", 1) for each in assigned)
    for name in variables:
        assert f"$({name})" in recipe, f"{target} takes no {name}"
    if target == "bench":
        _bench(variables.get("ARGS", ""))
    elif target == "fuzz":
        assert variables.get("TARGET", "all") in {*TARGETS, "all"}
    elif target == "image":
        _image()


def _bench(arguments: str) -> None:
    with patch.object(sys, "argv", ["bench", *shlex.split(arguments)]):
        options = bench._options()
    assert set(options.suite.split(",")) <= bench._SUITES.keys()
    assert set(options.brokers.split(",")) <= bench._KINDS.keys()


def _image() -> None:
    """What an image is made of has all folders of the project."""
    seen = (ROOT / ".dockerignore").read_text().split()
    assert [room for room in ROOMS if f"!{room}" not in seen] == []


def _pip(words: Words) -> None:
    """As long as the package is on no index, only a checkout or a wheel can be installed."""
    assert words[1] == "install", words
    for word in words[2:]:
        what, _, extra = word.removesuffix("]").partition("[")
        assert what == "." or what.endswith(".whl"), f"{word} is on no index"
        assert not extra or extra in _PROJECT["optional-dependencies"], f"no extra {extra}"


def _from_wheel(words: Words) -> None:
    """The wheel of this version, as `make dist` names it."""
    (wheel,) = (word for word in words if word.endswith(".whl"))
    assert wheel.startswith(f"dist/tailrace-{_PROJECT['version']}-"), wheel
    if words[0] == "uvx":
        check(words[words.index(wheel) + 1 :])


def _docker(words: Words) -> None:
    if words[1] == "compose":
        _compose(words[2:])
    elif words[1] == "build":
        assert (ROOT / words[words.index("-f") + 1]).exists(), words
        assert words[words.index("-t") + 1] == _IMAGE, words
    else:
        assert words[1] == "run", words
        assert words[-1] == _IMAGE or _OTHER_IMAGES.fullmatch(words[-1]), words


def _compose(words: Words) -> None:
    option, file, verb, *rest = words
    assert option == "-f", words
    services = yaml.safe_load((ROOT / file).read_text())["services"]
    if verb == "exec":
        assert rest[0] in services, words
        check(tuple(rest[1:]))
    else:
        assert verb in ("up", "down"), words


def _pytest(words: Words) -> None:
    markers = " ".join(words)
    declared = (ROOT / "pyproject.toml").read_text()
    for marker in re.findall(r"not (\w+)", markers):
        assert f'"{marker}: ' in declared, marker


def _printf(words: Words) -> None:
    assert len(words) > 1


def _kafkas_tool(words: Words) -> None:
    """One that tests run; tests/interop/kafka runs the very lines of the page."""
    assert words[0].removeprefix("kafka-") in MAIN_CLASSES, words


def _cat(words: Words) -> None:
    """A file that `tailrace start --secure` writes."""
    assert words[1].removeprefix(f"{DIRECTORY}/") in {TRUSTED, JAVA, LIBRDKAFKA}, words


_CHECKERS: Final[dict[str, Callable[[Words], None]]] = {
    "make": _make,
    "pip": _pip,
    "pipx": _from_wheel,
    "uvx": _from_wheel,
    "docker": _docker,
    "tailrace": check_words,
    ".venv/bin/pytest": _pytest,
    "printf": _printf,
    "kafka-acls": _kafkas_tool,
    "cat": _cat,
}
