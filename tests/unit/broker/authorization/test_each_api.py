"""Every API with and without what it needs: the code that Kafka answers, and nothing looked up."""

import pytest

from tests.unit.broker.authorization.cases import CASES, Case
from tests.unit.broker.authorization.support import DENIALS, codes, guard, whole_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.api.name}-{case.version}")
@in_loop
async def test_a_request_needs_each_of_its_permissions(case: Case) -> None:
    async with whole_world() as world:
        authorizer = guard(world)
        for need, code in case.needs.items():
            authorizer.change(*(case.needs.keys() - {need}))
            answer = await ask(world, case.api, case.version, case.request())
            assert code in codes(answer), (need, answer)
        *others, last = case.needs
        for enough in (last, *case.instead):
            authorizer.change(*others, enough)
            answer = await ask(world, case.api, case.version, case.request())
            assert not codes(answer) & DENIALS, (enough, answer)
