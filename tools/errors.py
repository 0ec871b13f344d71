"""What a command says when it cannot do its work: cause, place, remedy, and an exit code."""

from enum import IntEnum


class Exit(IntEnum):
    """How a command ends. Documented in DESIGN.md; scripts may rely on it."""

    OK = 0
    FAILED = 1
    """The work was refused, or part of it failed."""
    USAGE = 2
    """The command line or the configuration is wrong; nothing was done."""
    UNREACHABLE = 3
    """No broker answered."""
    INTERRUPTED = 130
    """Ctrl-C."""


class CliError(Exception):
    """Ends a command. `cause` says what is wrong, `place` where, `remedy` what to try."""

    def __init__(
        self, cause: str, *, place: str = "", remedy: str = "", code: Exit = Exit.FAILED
    ) -> None:
        super().__init__(cause)
        self.cause = cause
        self.place = place
        self.remedy = remedy
        self.code = code

    def report(self) -> str:
        """Return the lines for stderr."""
        lines = [f"error: {self.cause}"]
        if self.place:
            lines.append(f"   at: {self.place}")
        if self.remedy:
            lines.append(f"  try: {self.remedy}")
        return "\n".join(lines)
