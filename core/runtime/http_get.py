"""One document from an HTTP server, bounded in bytes and time; for what an operator named."""

import asyncio
import importlib

from tailrace.core.errors import Unavailable


async def http_get(url: str, *, bytes_max: int, timeout_s: float) -> bytes:
    """Return what a server answers to GET. Redirects are not followed, nothing is decompressed.

    Errors: Unavailable: no connection, a certificate that is not trusted (by the system's
    authorities), a status other than 200, more than `bytes_max`, not over in `timeout_s`. Cancel:
    ends it. Cost: the first call loads the client, 200 ms in a thread.
    """
    client = await asyncio.to_thread(importlib.import_module, "aiohttp")
    try:
        async with (
            asyncio.timeout(timeout_s),
            client.ClientSession(auto_decompress=False) as session,
            session.get(
                url, allow_redirects=False, headers={"Accept-Encoding": "identity"}
            ) as response,
        ):
            if response.status != 200:
                raise Unavailable(f"the server answers with status {response.status}")
            data = bytearray()
            async for piece in response.content.iter_any():
                data += piece
                if len(data) > bytes_max:
                    raise Unavailable(f"the server sends more than {bytes_max} bytes")
            return bytes(data)
    except TimeoutError:
        raise Unavailable(f"it is not over in {timeout_s} s") from None
    except (client.ClientError, ValueError) as error:  # ValueError: of what is not a URL
        raise Unavailable(f"{type(error).__name__}: {error}") from error
