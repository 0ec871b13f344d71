"""Why another broker gave no answer. Whoever asked may ask again, perhaps somebody else."""


class PeerError(Exception):
    """Root of what goes wrong between brokers. What was asked may have happened all the same."""


class PeerUnavailable(PeerError):
    """The broker is not alive, or cannot be reached: nothing was asked of it."""


class PeerBusy(PeerError):
    """As much waits for the broker as may wait: nothing was asked of it."""


class PeerUnsupported(PeerError):
    """The broker, of another release, does not serve what is asked: nothing was asked of it."""


class PeerTimeout(PeerError):
    """No answer in time."""


class PeerLost(PeerError):
    """The connection ended before the answer came, or what came is no answer."""
