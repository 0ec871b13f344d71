"""What a request's checksum covers: DistributedLog's ProtocolUtils, java.util.zip.CRC32.

ISA-L computes zlib's CRC-32 in less than half of zlib's own time.
"""

from isal.isal_zlib import crc32

from tailrace.protocol.ids import Buffer


def request_checksum(stream: str, *payloads: Buffer) -> int:
    """Return the CRC-32 of a stream's name in UTF-8 and of payloads behind it, in their order.

    Shape: 0 to 2^32 - 1. Cost: one pass over the payloads.
    """
    value = crc32(stream.encode())
    for payload in payloads:
        value = crc32(payload, value)
    return value
