"""The folders that `tailrace/` has links to: what tests about the sources go through."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_LINKS = (each.name for each in (ROOT / "tailrace").iterdir() if each.is_symlink())
ROOMS: Final = tuple(sorted(_LINKS))
OWN_PROCESSES: Final = tuple(room for room in ROOMS if room not in ("pipeline", "simulation"))
"""Those that run in processes of ours: pipelines run inside Spark, simulations in users' tests."""
