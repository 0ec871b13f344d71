"""Work that gives way to all others."""

import os
import threading

import pytest

from tailrace.core.runtime.idle_thread import IdleThread


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux knows idle threads")
def test_work_has_a_core_only_while_nobody_else_wants_it() -> None:
    def policy() -> tuple[int, str]:
        return os.sched_getscheduler(0), threading.current_thread().name

    before = policy()
    thread = IdleThread()
    first = thread.call(policy)
    assert first[0] == os.SCHED_IDLE
    assert thread.call(policy) == first, "one thread for all that comes"
    assert policy() == before


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux knows idle threads")
def test_work_is_done_where_the_system_forbids_to_be_idle(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "seccomp")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert IdleThread().call(int, "12") == 12
    assert "seccomp" in caplog.text


def test_work_is_done_once_where_the_system_gives_no_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    done: list[str] = []
    thread = IdleThread()
    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", refuse)
        thread.call(done.append, "first")
    assert "can't start" in caplog.text
    thread.call(done.append, "second")
    assert done == ["first", "second"]
    with pytest.raises(ValueError, match="invalid literal"):
        thread.call(int, "no number")


def test_what_the_work_raises_comes_to_who_called() -> None:
    thread = IdleThread()
    with pytest.raises(ValueError, match="invalid literal"):
        thread.call(int, "no number")
    assert thread.call(int, "12", base=8) == 10
