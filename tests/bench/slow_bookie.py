"""A bookie whose disk takes longer to sync: `python -m tests.bench.slow_bookie MS bookie ...`.

Everything else is `tailrace bookie` as it is.
"""

import sys
import time

from tailrace.core.runtime.files import SystemFiles
from tailrace.tools.main import run


def main() -> None:
    """Slow every sync of this process down and run the command line that follows."""
    delay_s = int(sys.argv.pop(1)) / 1000
    sync = SystemFiles.sync

    def slow_sync(self: SystemFiles, fd: int) -> None:
        time.sleep(delay_s)
        sync(self, fd)

    SystemFiles.sync = slow_sync  # type: ignore[method-assign]
    run()


if __name__ == "__main__":
    main()
