"""`Broker`: a Tailrace broker in a process of its own, for the time of a `with` block.

with Broker(settings={"num.partitions": 3}) as broker:
    Producer({"bootstrap.servers": broker.bootstrap})
"""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from tailrace.testing.command import (
    COMMAND,
    DEFAULT_SETTINGS,
    command_line,
    environment,
    texts,
    user_command,
)
from tailrace.testing.control import FaultPort
from tailrace.testing.errors import BrokerError
from tailrace.testing.faults import Faults
from tailrace.testing.guard import Guard
from tailrace.testing.logs import tail
from tailrace.testing.ports import HOST, reserve_port
from tailrace.testing.security import Client, Protocol, Security

if TYPE_CHECKING:
    import socket

_POLL_S: Final = 0.005
_ANSWER_S: Final = 1.0
_KILL_TIMEOUT_S: Final = 30.0


class Broker(Faults):
    """A broker on 127.0.0.1, ready when it answers a Metadata request.

    >>> with Broker(settings={"num.partitions": 3}) as broker:
    ...     producer = Producer({"bootstrap.servers": broker.bootstrap})

    It keeps its port for as long as this object is in use, down or up. At the end of the block (and
    when the user's process dies, however) its process ends and its temporary directory is removed.
    A data directory that the user gave is never removed. TAILRACE_* variables are not passed on to
    it. Not for several threads at a time; calls block, so in a coroutine write
    `await asyncio.to_thread(broker.restart)`, and `async with`, which does not block the loop.
    """

    def __init__(  # noqa: PLR0913 - a keyword for each thing that a test may want
        self,
        *,
        data_directory: str | os.PathLike[str] | None = None,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
        security: Protocol = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
        start_timeout_s: float = 30.0,
        stop_timeout_s: float = 10.0,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """Describe a broker; `start`, or the block, starts it.

        `data_directory`: where it keeps everything; None is a temporary one. `port`: 0 is a free
        one. `settings`: as with `tailrace start --set`, by Kafka's names. `security`: how its
        clients speak; certificates and users are made for it, and `client_settings` says how to
        get in. `users`: their passwords by name, instead of one with a password that is drawn; with
        SSL each has a certificate. `command`: what stands for `tailrace` on the command line.
        """
        self._security = Security(security, users)
        self._security_settings: dict[str, str] = {}
        self.settings: dict[str, str] = {**DEFAULT_SETTINGS, **texts(settings or {})}
        self.start_timeout_s = start_timeout_s
        self.stop_timeout_s = stop_timeout_s
        self.host = HOST
        self._command = tuple(command)
        self._wanted_port = port
        self._own_data = None if data_directory is None else Path(data_directory).absolute()
        self._guard: Guard | None = None
        self._held: socket.socket | None = None
        self._last_log = ""
        self._is_abandoned = False
        self._is_paused = False
        self._port: FaultPort | None = None

    @property
    def port(self) -> int:
        """Its port, the same after every restart. Errors: BrokerError before the first start."""
        if self._held is None:
            raise self._not_running("has no port")
        return int(self._held.getsockname()[1])

    @property
    def bootstrap(self) -> str:
        """What clients take as `bootstrap.servers`. Errors: BrokerError before the first start."""
        return f"{self.host}:{self.port}"

    @property
    def data_directory(self) -> Path:
        """Where its data lies. Errors: BrokerError for a temporary one before the first start."""
        if self._own_data is not None:
            return self._own_data
        if self._guard is None:
            raise self._not_running("has no data directory")
        return self._guard.folder / "data"

    @property
    def pid(self) -> int:
        """The process id of the broker. Errors: BrokerError when it does not run."""
        guard = self._running_guard("has no process id")
        assert guard.pid is not None
        return guard.pid

    @property
    def is_running(self) -> bool:
        """Whether its process is there, paused or not."""
        if self._guard is None:
            return False
        self._guard.hear(0)
        return self._guard.pid is not None

    @property
    def log(self) -> str:
        """What it has printed since the first start, the last MiB; also when it has ended."""
        return self._last_log if self._guard is None else tail(self._guard.log)

    def client_settings(
        self, client: Client = "confluent", user: str | None = None
    ) -> dict[str, Any]:
        """Return what a client of a library needs to get in, its bootstrap servers among it.

        `client`: confluent (librdkafka's names), java (Kafka's, as in a file of properties),
        kafka-python or aiokafka. `user`: one of `users`; None: the first.
        Errors: BrokerError before the first start; KeyError; ValueError for another client.
        """
        return self._security.client_settings(client, self.bootstrap, user)

    def start(self) -> Self:
        """Start it and return when it answers. One that runs is left alone.

        Errors: BrokerError if the port is taken, the command is not there, or the broker ends
        (unknown setting, unwritable directory: its own words are shown) or is not ready in time.
        """
        if not self.is_running:
            try:
                self._start()
            except BaseException:  # Ctrl-C too: nothing may be left
                self.close()
                raise
        return self

    def stop(self) -> None:
        """End it in order (SIGTERM); data and port stay for the next start.

        Errors: BrokerError if it has not ended after `stop_timeout_s`; it is killed then.
        """
        if not self.is_running:
            return
        self.undo_faults()  # a paused one would never end, and one with a full disk not in order
        guard = self._running_guard("cannot be stopped")
        guard.signal(signal.SIGTERM)
        guard.signal(signal.SIGCONT)  # it may stand still for reasons of its own
        if not guard.wait_for_end(self.stop_timeout_s):
            self.kill()
            raise BrokerError(
                f"the broker on {self.bootstrap} had not ended {self.stop_timeout_s:g} s after "
                "SIGTERM, and was killed",
                "give a longer `stop_timeout_s`",
                self.log,
            )

    def kill(self) -> None:
        """Pull the plug (SIGKILL), paused or not; what was acknowledged is there after `start`."""
        self._running_guard("cannot be killed").signal(signal.SIGKILL)
        self._see_end()

    def _see_end(self) -> None:  # type: ignore[explicit-override]  # 3.12 has it
        guard = self._guard
        assert guard is not None
        if not guard.wait_for_end(_KILL_TIMEOUT_S):
            raise BrokerError(
                f"process {guard.pid} is still there {_KILL_TIMEOUT_S:g} s after SIGKILL",
                f"see what holds it: /proc/{guard.pid}/wchan",
                self.log,
            )

    def pause(self) -> None:
        """Stop it in mid-air (SIGSTOP): connections stay open, nothing is answered."""
        self._running_guard("cannot be paused").signal(signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        """Let it go on after `pause` (SIGCONT)."""
        self._running_guard("cannot be resumed").signal(signal.SIGCONT)
        self._is_paused = False

    def undo_faults(self) -> None:
        """Resume it, if it is paused, and undo every fault. One that is down stays down.

        The plugin calls it at the end of each test, and starts the session's broker if it is down.
        """
        if not self.is_running:
            return
        if self._is_paused:
            self.resume()
        if self._port is not None and self._port.was_used:
            self._port.ask("DELETE")
            self._port.was_used = False

    def restart(self) -> Self:
        """Stop it in order, unless it is down already, and start it on the same port and data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End it and leave nothing behind but a data directory that the user gave. Idempotent.

        Over a temporary directory it is killed, which is quicker; else it is stopped in order.
        """
        guard = self._guard
        if guard is None or not guard.is_mine:  # a fork of the user's process has no say
            return
        try:
            if self._own_data is not None:
                self.stop()
        finally:
            self._last_log = tail(guard.log)
            self._guard = None
            if self._held is not None:
                self._held.close()
                self._held = None
            guard.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        """As `with`, in a thread. Cancel: the start is given up, and nothing is left."""
        import asyncio  # not for those who write `with`

        starting = asyncio.get_running_loop().run_in_executor(None, self.start)
        try:
            await asyncio.wait([starting])
        except asyncio.CancelledError:
            self._is_abandoned = True  # the thread sees it, at the latest after one question
            await asyncio.wait([starting])
            starting.exception()  # that it was given up is no news
            self._is_abandoned = False
            await asyncio.to_thread(self.close)
            raise
        return starting.result()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    def _start(self) -> None:
        if self._held is None:
            self._held = reserve_port(self._wanted_port)
        if self._guard is None:
            self._guard = Guard()
            self._prepare(self._guard)
        port = FaultPort(self._guard.log, lambda: self._port is port and self.is_running)
        self._port, self._is_paused = port, False
        listen = self._security.listen(self.bootstrap)
        settings = {**self._security_settings, **self.settings}
        line = command_line(self._command, self.data_directory, listen, settings)
        self._guard.start(line, environment(os.environ))
        deadline = time.monotonic() + self.start_timeout_s
        while not self._security.is_ready(self.host, self.port, _ANSWER_S):
            self._guard.hear(_POLL_S)
            if self._guard.pid is None:
                raise self._ended()
            if self._is_abandoned:
                raise BrokerError("the start was given up", "it was cancelled: nothing to mend")
            if time.monotonic() > deadline:
                raise self._late()

    def _prepare(self, guard: Guard) -> None:
        """Make certificates and users, before the first start over a folder."""
        if not self._security.is_any:
            return
        guard.wait_until_ready()
        folder = guard.folder / "keys"
        self._security_settings = self._security.prepare(folder)
        for name, file in self._security.password_files(folder):
            line = user_command(self._command, self.data_directory, name, file)
            guard.run(line, environment(os.environ), self.start_timeout_s)
            file.unlink()

    def _fault_port(self) -> FaultPort:  # type: ignore[explicit-override]  # 3.12 has it
        self._running_guard("takes no faults")
        if self._is_paused:
            raise BrokerError("the broker is paused, so it takes no faults", "call resume() first")
        assert self._port is not None
        return self._port

    def _running_guard(self, what: str) -> Guard:
        if self._guard is None or not self.is_running:
            raise self._not_running(what)
        return self._guard

    def _not_running(self, what: str) -> BrokerError:
        return BrokerError(
            f"the broker does not run, so it {what}",
            "call start() first, or use it in a `with` block",
            self.log,
        )

    def _ended(self) -> BrokerError:
        assert self._guard is not None
        return BrokerError(
            f"the broker ended with exit code {self._guard.exit_code} before it was ready "
            f"({self.bootstrap}, data in {self.data_directory})",
            "see its last lines below: they name the setting, file or module, and the remedy",
            self.log,
        )

    def _late(self) -> BrokerError:
        return BrokerError(
            f"the broker did not answer on {self.bootstrap} within {self.start_timeout_s:g} s",
            "give a longer `start_timeout_s` (tailrace_start_timeout with pytest), or run fewer "
            "at a time",
            self.log,
        )
