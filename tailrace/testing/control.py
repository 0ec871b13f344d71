"""The port where a broker lets itself be broken: its address, and requests to it."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tailrace.testing.errors import BrokerError

_ADDRESS: Final = re.compile(rb"^faults: http=(\S+):(\d+)$", re.MULTILINE)
_LOOKED_THROUGH_BYTES: Final = 64 * 1024
_ANSWER_S: Final = 30.0
"""For an answer that takes the broker milliseconds, on a machine that is very busy."""
_POLL_S: Final = 0.005


class FaultPort:
    """The port of one process: made before it starts, of no use after its end."""

    def __init__(self, log: Path, is_up: Callable[[], bool]) -> None:
        """`log`: where the broker prints its address; `is_up`: whether its process is there."""
        self._log = log
        self._since = log.stat().st_size if log.exists() else 0
        self._is_up = is_up
        self._address: tuple[str, int] | None = None
        self.was_used = False
        """Whether a fault may be set."""

    @property
    def is_up(self) -> bool:
        """Whether the process is there, and with it what was set."""
        return self._is_up()

    def ask(
        self, method: str, path: str = "", order: object = None, *, is_last: bool = False
    ) -> Any:
        """Send a request and return what its answer says; None to the last one of a process.

        Errors: BrokerError if the broker refuses, which says why, or does not answer.
        """
        from http.client import HTTPConnection, HTTPException  # only tests with faults pay for it

        self.was_used = True
        connection = HTTPConnection(*self._find(), timeout=_ANSWER_S)
        body = None if order is None else json.dumps(order)
        try:
            connection.request(method, f"/faults{path}", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return _said(response.status, response.read().decode(errors="replace"))
        except (OSError, HTTPException) as error:
            if is_last:
                return None
            raise BrokerError(
                f"the broker's port for faults does not answer: {error!r}",
                "see its last lines: has it ended?",
                self._log.read_text(errors="replace"),
            ) from error
        finally:
            connection.close()

    def _find(self) -> tuple[str, int]:
        """Return the address, which is printed just before the broker is ready."""
        deadline = time.monotonic() + _ANSWER_S
        while self._address is None:
            with self._log.open("rb") as log:
                log.seek(self._since)
                found = _ADDRESS.search(log.read(_LOOKED_THROUGH_BYTES))
            if found:
                self._address = found[1].decode(), int(found[2])
            elif time.monotonic() > deadline:
                raise BrokerError("the broker has printed no `faults: http=`", "see its log")
            else:
                time.sleep(_POLL_S)
        return self._address


def _said(status: int, text: str) -> Any:
    if status == 200:
        return json.loads(text)
    if status == 400:
        said = json.loads(text)
        raise BrokerError(f"{said['place']}: {said['error']}", said["remedy"])
    raise BrokerError(f"the broker answered {status} to a fault: {text}", "see its log")
