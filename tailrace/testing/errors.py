"""What goes wrong with a broker for tests: cause, place, remedy, and what the broker said."""

from typing import Final

LOG_LINES_MAX: Final = 40
"""How many of the broker's last lines an error shows."""


class BrokerError(Exception):
    """A broker did not start, did not answer, or is not in the state that a call needs.

    `cause` says what happened and where, `remedy` what to do about it, `log` what the broker
    printed last (empty when there was no broker yet).
    """

    def __init__(self, cause: str, remedy: str, log: str = "") -> None:
        self.cause = cause
        self.remedy = remedy
        self.log = log
        super().__init__(_text(cause, remedy, last_lines(log)))


def last_lines(log: str, lines_max: int = LOG_LINES_MAX) -> str:
    """Return the end of a log, whole lines."""
    return "\n".join(log.splitlines()[-lines_max:])


def _text(cause: str, remedy: str, log: str) -> str:
    text = f"{cause}\n  try: {remedy}"
    return f"{text}\nthe broker's last lines:\n{log}" if log else text
