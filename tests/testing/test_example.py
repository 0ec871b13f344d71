"""The example project in docs, as its user runs it: the wheel, own environment, xdist too."""

import shutil

import pytest

from tests.testing.conftest import UserPytest
from tests.wheel import ROOT


@pytest.mark.interop
@pytest.mark.parametrize(
    ("arguments", "passed"), [(["tests/test_asyncio.py"], 2), (["-n", "2"], 12)], ids=str
)
def test_the_example_passes(user: UserPytest, arguments: list[str], passed: int) -> None:
    shutil.copytree(ROOT / "docs" / "examples" / "pytest", user.project, dirs_exist_ok=True)
    (user.project / "pytest.ini").unlink()
    code, printed = user.run(*arguments)
    assert code == 0, printed
    assert f"{passed} passed" in printed
