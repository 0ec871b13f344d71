"""What sessions cost that are lost again and again: claims, and so recoveries, have a pace."""

import asyncio
from pathlib import Path
from typing import Final

from tailrace.proxy.owner.codes import StatusCode
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, new_stream, payloads_of, run

CHANGES: Final = 20
SESSION_MS: Final = 100
"""A redirect is kept for less than the pause of claims."""


def test_a_stream_that_flapping_proxies_take_from_each_other_is_claimed_once_a_second(
    tmp_path: Path,
) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        owner, other = (Proxy(world, n, session_timeout_ms=SESSION_MS) for n in (1, 2))
        proxies = owner, other
        written: list[bytes] = []
        began_s = world.clock.monotonic_s()
        for number in range(CHANGES):
            answer = await owner.streams.write("s", b"%d" % number)
            assert answer.code is StatusCode.SUCCESS
            written.append(b"%d" % number)
            owner.store.expire()  # it does not hear of that yet, and does not ask again
            owner, other = other, owner
            while (await owner.streams.heartbeat("s")).code is StatusCode.FOUND:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert owner.streams.is_owned("s")
            other.store.tick()
            await until_let_go(other)
        passed_s = world.clock.monotonic_s() - began_s
        recovered = [proxy.log_metrics.segments_recovered_total for proxy in proxies]
        assert sum(recovered) == CHANGES
        assert all(1 < count <= 1 + passed_s for count in recovered)
        assert all(proxy.metrics.claims_total <= 1 + passed_s for proxy in proxies)
        for proxy in proxies:
            await proxy.streams.close()
        assert await payloads_of(world) == written

    run(tmp_path, story)


async def until_let_go(proxy: Proxy) -> None:
    """Wait until a proxy has heard that it lost the stream."""
    while proxy.streams.owned:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
