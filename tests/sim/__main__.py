"""`python -m tests.sim`: many seeds in parallel, or one again.

python -m tests.sim --seeds 1000          seeds 0..999 on all cores, stops after ten failures
python -m tests.sim --seed 17             one seed; --trace prints every event
python -m tests.sim --world logs ...      logs and their owners, on the same simulated cluster
python -m tests.sim --world groups ...    a consumer group's members and their coordinator
python -m tests.sim --world proxies ...   write proxies and their thin clients, on the same cluster
"""

import sys

from tailrace.simulation.seeds import OURS, Schedules, main
from tests.sim.groups import schedule as groups
from tests.sim.proxies import schedule as proxies

KINDS = {
    **OURS,
    "groups": Schedules(groups.run_group_seed, groups.COUNTS),
    "proxies": Schedules(proxies.run_proxy_seed, proxies.COUNTS),
}

if __name__ == "__main__":
    sys.exit(main("tests.sim", KINDS))
