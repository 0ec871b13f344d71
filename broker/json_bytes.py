"""Bytes in JSON: as text if they are UTF-8, else as base64 under another name. Pure."""

import base64


def named_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return {name: text}, or {name_base64: base64} for what is no UTF-8; {name: None} for None."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
