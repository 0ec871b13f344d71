"""Node names for things that users name freely: groups, users, resources. Pure."""

from typing import Final
from urllib.parse import quote, unquote

_DEFAULT_ENTITY: Final = "<default>"
"""As in Kafka; no name is quoted to it."""


def entity_node(name: str) -> str:
    """Return the node name for any entity name, such as a group's. Source: Kafka's Sanitizer."""
    if not name:
        return _DEFAULT_ENTITY
    quoted = quote(name, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def entity_name(node: str) -> str:
    """Return the entity behind a node name."""
    return "" if node == _DEFAULT_ENTITY else unquote(node)
