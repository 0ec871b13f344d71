"""A random schedule of a group: one seed is one coordinator, its members, and what befalls them."""

import asyncio
import logging
import traceback
from random import Random

from tailrace.simulation.checkers import Violation
from tailrace.simulation.loop import Deadlock, Livelock, SimLoop
from tailrace.simulation.remains import end_what_is_left
from tailrace.simulation.schedule import Result
from tailrace.simulation.trace import Trace
from tests.sim.groups.member import Member
from tests.sim.groups.world import PARTITIONS, GroupWorld

COUNTS = ("assigned", "commits", "generations", "members")

MEMBERS_MAX = 6
STABLE_S = 120.0
"""Virtual time in which a group has shared everything out once it is left in peace."""


class Story:
    """The members of one world, and whoever disturbs them."""

    def __init__(self, world: GroupWorld) -> None:
        self.world = world
        self.members: dict[Member, asyncio.Task[None]] = {}
        self.made = 0
        self._rng = Random(f"{world.seed}/story")
        self._instances = [f"static-{n}" for n in range(self._rng.choice((0, 0, 1, 2)))]

    async def tell(self) -> None:
        """Disturb for a while, then leave them in peace and see that all is well."""
        world, rng = self.world, self._rng
        world.delay_s = rng.choice((0.002, 0.05, 0.4))
        world.loss = rng.choice((0.0, 0.0, 0.02, 0.1))
        await world.start()
        for _ in range(rng.randint(1, 4)):
            self._add()
        pause_s = rng.choice((0.3, 1.0, 4.0))
        until_s = world.loop.time() + rng.choice((20.0, 60.0))
        faults = rng.sample(
            [self._add, self._kill, self._pause, self._leave, self._replace, self._storage, None],
            rng.randint(2, 7),
        )
        while world.loop.time() < until_s:
            await asyncio.sleep(rng.expovariate(1 / pause_s))
            fault = rng.choice(faults)
            if fault is None:
                await world.crash()
            else:
                fault()
        world.loss, world.delay_s = 0.0, 0.01
        if not self._living():
            self._add()
        async with asyncio.timeout(STABLE_S):
            await self._shared_out()

    # What befalls them

    def _living(self) -> list[Member]:
        return [member for member, task in self.members.items() if not task.done()]

    def _add(self, instance_id: str | None = None) -> None:
        if len(self._living()) >= MEMBERS_MAX:
            return
        self.made += 1
        if instance_id is None and self._instances:
            instance_id = self._instances.pop()
        member = Member(self.world, f"m{self.made}", instance_id)
        self.members[member] = self.world.tasks.spawn(self._watched(member), member.name)

    async def _watched(self, member: Member) -> None:
        try:
            await member.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a bug of ours
            self.world.checker.fail(f"{member.name} failed: {error!r}")

    def _kill(self) -> None:
        for member in self._rng.sample(living := self._living(), min(1, len(living))):
            self.world.trace(member.name, "fault.death")
            self.members[member].cancel()
            if member.instance_id is not None:  # its next process comes at once, or much later
                asyncio.get_running_loop().call_later(
                    self._rng.choice((0.1, 2.0, 9.0)), self._add, member.instance_id
                )

    def _replace(self) -> None:
        """Start a static member's next process while the last one still runs: a zombie."""
        static = [member for member in self._living() if member.instance_id is not None]
        for member in self._rng.sample(static, min(1, len(static))):
            self.world.trace(member.name, "fault.replaced")
            self._add(member.instance_id)

    def _pause(self) -> None:
        for member in self._rng.sample(living := self._living(), min(1, len(living))):
            member.pause_s = self._rng.choice((2.0, 8.0, 15.0))
            self.world.trace(member.name, "fault.pause", member.pause_s)

    def _leave(self) -> None:
        for member in self._rng.sample(living := self._living(), min(1, len(living))):
            member.leaving = True

    def _storage(self) -> None:
        self.world.fail_storage()

    # Peace

    async def _shared_out(self) -> None:
        """Wait until every partition has one owner among those that live, in one generation."""
        while True:
            living = self._living()
            owned = sorted(partition for member in living for partition in member.owned)
            generations = {member.generation for member in living}
            if owned == list(range(PARTITIONS)) and len(generations) == 1:
                return
            if not living:
                self._add()
            await asyncio.sleep(0.5)


def run_group_seed(seed: int, *, show: bool = False) -> Result:
    """Run one schedule of a group."""
    loop = SimLoop(Random(f"{seed}/loop"))
    trace = Trace(now_s=loop.time, show=show)
    world = GroupWorld(seed, loop, trace)
    story = Story(world)

    async def main() -> None:
        try:
            await story.tell()
        finally:
            await world.close()

    asyncio.set_event_loop(None)
    logging.disable(logging.WARNING)
    try:
        loop.run_until_complete(loop.create_task(main()))
    except (Deadlock, Livelock, TimeoutError, AssertionError) as error:
        world.checker.fail(f"{error!r}\n{traceback.format_exc(limit=-3)}")
    finally:
        heard, trace.is_over = world.checker.violations[:], True
        world.checker.violations[:] = heard + [
            Violation(loop.time(), what) for what in end_what_is_left(loop)
        ]
        loop.close()
        logging.disable(logging.NOTSET)
    for context in loop.failures:
        world.checker.fail(f"a callback raised: {context.get('exception')!r}")
    counts = dict(trace.counts)
    counts["commits"] = world.checker.commits
    counts["generations"] = world.checker.generation
    counts["members"] = story.made
    return Result(
        seed,
        trace.digest,
        tuple(world.checker.violations),
        counts,
        tuple(trace.tail),
        loop.time(),
        loop.turns,
    )
