"""A real broker for tests: `with Broker() as broker:` starts one, its end leaves nothing behind.

Only the standard library is imported into the user's process; the broker runs in a process of its
own. With pytest, see the fixtures of `tailrace.pytest_plugin`.
"""

from tailrace.testing.broker import Broker
from tailrace.testing.errors import BrokerError
from tailrace.testing.faults import Fault

__all__ = ["Broker", "BrokerError", "Fault"]
