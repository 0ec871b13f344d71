"""How long one client has the others wait: CPU of the longest turn of a broker's loop, by API.

The requests are those of `tests/unit/broker/turns`, which counts calls instead. The broker runs in
this process, its client in a thread. Time of the thread, not of the clock: what else the machine
does makes no turn longer. Python's collector of garbage is off meanwhile: it would look at what the
client has in this process too. In a broker it looks at what its long requests are made of, which
takes 0.1 s for a million objects, and is in none of these figures.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from typing_extensions import override

from tailrace.protocol.kafka.apis import APIS
from tests.unit.broker.turns.asked import asked
from tests.unit.broker.turns.hostile import hostile_requests

MANY: Final = 30_000
"""Things that each request names."""


class _TimedLoop(asyncio.SelectorEventLoop):
    """Measures its turns."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_s = 0.0

    @override
    def _run_once(self) -> None:
        began_s = time.thread_time()
        super()._run_once()  # type: ignore[misc]  # of asyncio's base class, not in typeshed
        self.longest_s = max(self.longest_s, time.thread_time() - began_s)


def measure(steps: Callable[[str], None]) -> Iterator[tuple[str, dict[str, float]]]:
    """Ask each API for as much as one can; yield its name and the longest turn, ms of CPU."""
    for api in APIS.values():
        with (
            tempfile.TemporaryDirectory() as folder,
            asyncio.Runner(loop_factory=_TimedLoop) as runner,
        ):
            found = runner.run(_longest_ms(Path(folder), api.key))
        steps(f"{api.name}: {found:.0f} ms")
        yield api.name, {"longest turn ms": found}


async def _longest_ms(folder: Path, key: int) -> float:
    api, longest_s = APIS[key], 0.0
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _TimedLoop)
    gc.disable()
    async with asked(folder) as (client, topic_id):
        for _, request in hostile_requests(api, api.versions[-1], topic_id, MANY):
            await asyncio.sleep(0)  # what making it took is another turn's
            await asyncio.sleep(0)
            loop.longest_s = 0.0
            await asyncio.to_thread(client.ask, api, request)
            longest_s = max(longest_s, loop.longest_s)
            gc.collect()
    gc.enable()
    return longest_s * 1000
