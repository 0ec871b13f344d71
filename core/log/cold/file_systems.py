"""Which file systems fsspec knows, and which of them are installed here."""

from importlib.util import find_spec


def what_is_missing(url: str) -> str:
    """Return what keeps a URL from being used here, "" if nothing does. Cost: imports fsspec."""
    from fsspec.registry import known_implementations, registry  # 30 ms, for who has a URL only
    from fsspec.utils import get_protocol

    protocol = get_protocol(url)
    if protocol in registry:
        return ""
    known = known_implementations.get(protocol)
    if known is None:
        return f"there is no file system {protocol}://"
    package = str(known["class"]).partition(".")[0]
    if find_spec(package) is not None:
        return ""
    return f"{protocol}:// needs a package more (pip install {package})"
