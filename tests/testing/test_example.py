"""The example project in docs, as its user runs it: the wheel, own environment, xdist too."""

import shutil

import pytest

from tests.testing.conftest import UserPytest
from tests.wheel import ROOT


@pytest.mark.interop
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["plain", "xdist"])
def test_the_example_passes(user: UserPytest, workers: list[str]) -> None:
    shutil.copytree(ROOT / "docs" / "examples" / "pytest", user.project, dirs_exist_ok=True)
    (user.project / "pytest.ini").unlink()
    code, printed = user.run(*workers)
    assert code == 0, printed
    assert "7 passed" in printed
