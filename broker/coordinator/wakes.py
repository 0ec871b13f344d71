"""When a group is looked at again: not for each deadline of a large group by itself."""

from tailrace.broker.replicated.effects import Now

MEMBERS_PER_MS = 100
"""Looking at all deadlines of a group costs about 1 us a member, so a tenth of a core at most."""


def wake_ms(deadline_ms: int, members: int, now: Now) -> int:
    """Return when to wake a group whose next deadline this is: 10 us a member from now, or later.

    So members that came one by one (10,000 of them in a flood) do not each cost a look at all the
    others when they go. Unit: monotonic ms; NEVER stays NEVER.
    """
    return max(deadline_ms, now.mono_ms + members // MEMBERS_PER_MS)
