"""When a log writer writes a control record, so that others hear how far the log is confirmed.

Flow: the writer says that everything sent is confirmed and not all of it published; the policy's
timers run; the writer is asked to publish. It does so only if there still is need: while records
flow their entries carry the news, and nothing is written here.
"""

import asyncio
from typing import Protocol

from tailrace.core.errors import CoreError
from tailrace.core.log.segment_chain import SegmentChain
from tailrace.core.log.transmit import ControlPolicy
from tailrace.protocol.distributedlog.record import CONTROL_PAYLOAD, KEEP_ALIVE_PAYLOAD
from tailrace.protocol.ids import Buffer, EntryId

_EARLY_S = 0.001
"""A timer may fire so much before its time."""


class ControlUser(Protocol):
    """The log writer, as its control records see it."""

    def send_waiting(self) -> bool:
        """Send the records that wait, if there are any: they carry the news as well."""

    def fail(self, error: CoreError) -> None:
        """Take note that nothing can be written any more."""


class ControlRecords:
    """The timers of one writer."""

    __slots__ = (
        "_chain", "_flushed_at", "_keep_alive_timer", "_loop", "_policy", "_quiet_since", "_seen",
        "_timer", "_user",
    )  # fmt: skip

    def __init__(self, policy: ControlPolicy, chain: SegmentChain, user: ControlUser) -> None:
        self._loop = asyncio.get_running_loop()
        self._policy = policy
        self._chain = chain
        self._user = user
        self._timer: asyncio.TimerHandle | None = None
        self._keep_alive_timer: asyncio.TimerHandle | None = None
        self._quiet_since = 0.0
        self._flushed_at = float("-inf")
        self._seen: tuple[int, EntryId] | None = None

    def set_policy(self, policy: ControlPolicy) -> None:
        """Follow another policy from now on."""
        self.stop()
        self._policy = policy
        self.on_segment()
        self.on_unpublished()

    def on_segment(self) -> None:
        """Hear that there is a segment to write to: from now on it may be too quiet."""
        if self._keep_alive_timer is None and self._policy.keep_alive_ms:
            self._seen = self._last_sent()
            delay_s = self._policy.keep_alive_ms / 1000
            self._keep_alive_timer = self._loop.call_later(delay_s, self._on_keep_alive)

    def on_unpublished(self) -> None:
        """Hear that all that was sent is confirmed, but that only this process knows."""
        policy = self._policy
        now = self._quiet_since = self._loop.time()
        if policy.is_immediate and now >= self._flushed_at + policy.min_delay_ms / 1000:
            self._publish(now)
        elif self._timer is None and (policy.is_immediate or policy.quiet_ms):
            self._timer = self._loop.call_at(self._due(), self._on_time)

    def close(self) -> None:
        """Write nothing more: a closed ledger's end is for everybody to see."""
        self.stop()
        self._policy = ControlPolicy()

    def stop(self) -> None:
        """Stop all timers."""
        for timer in (self._timer, self._keep_alive_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._keep_alive_timer = None

    def _due(self) -> float:
        policy = self._policy
        if policy.is_immediate:
            return self._flushed_at + policy.min_delay_ms / 1000
        return self._quiet_since + policy.quiet_ms / 1000

    def _on_time(self) -> None:
        self._timer = None
        due, now = self._due(), self._loop.time()
        if due > now + _EARLY_S:  # it was not quiet all the time
            self._timer = self._loop.call_at(due, self._on_time)
            return
        self._publish(now)

    def _publish(self, now: float) -> None:
        """Send what waits, else a control record, if there still is need."""
        self._flushed_at = now
        if self._user.send_waiting():
            return
        segment = self._chain.writable
        if segment is not None and segment.is_confirmed and not segment.is_published:
            self.send(CONTROL_PAYLOAD)

    def send(self, payload: Buffer) -> None:
        """Send a control record, if there is a segment to write to."""
        segment = self._chain.writable
        if segment is not None:
            try:
                segment.add_control(payload)
            except CoreError as error:
                self._user.fail(error)

    def _last_sent(self) -> tuple[int, EntryId] | None:
        segment = self._chain.current
        return None if segment is None else (segment.metadata.lssn, segment.last_sent)

    def _on_keep_alive(self) -> None:
        self._keep_alive_timer = None
        if self._last_sent() == self._seen:
            self.send(KEEP_ALIVE_PAYLOAD)
        self.on_segment()
