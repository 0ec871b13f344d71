"""Settings: one frozen dataclass per component, filled once from defaults < TOML < environment < --set."""

import dataclasses
from typing import Any


def setting(key: str, default: Any, doc: str) -> Any:
    """Declare a setting of a config dataclass.

    `key` is the name that users write: Kafka's or BookKeeper's own where they have one. `doc` says
    meaning, unit and what goes wrong; `tailrace start --help` and the README table print it.
    """
    return dataclasses.field(default=default, metadata={"key": key, "doc": doc})
