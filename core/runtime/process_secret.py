"""A number that this process alone knows, as the one that Python's own hashes begin with.

Functions that must not be turned against us by whoever chooses what goes into them begin with it;
what comes out means nothing to other processes, nor after a restart.
"""

import os
from typing import Final

PROCESS_SECRET: Final = os.urandom(32)
