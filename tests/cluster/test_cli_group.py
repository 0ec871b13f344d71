"""`tailrace group` against a running broker."""

import pytest

from tests.cluster.group_command_contract import GroupCommandContract
from tests.process import TailraceProcess


class TestOurs(GroupCommandContract):
    coordinator = 1

    @pytest.fixture
    def at(self, broker: TailraceProcess) -> str:
        return broker.bootstrap
