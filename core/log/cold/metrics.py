"""Numbers of cold storage in one process."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class ColdMetrics:
    """What was copied to cold storage and read from it."""

    uploads: int = gauge("segments that are being copied")
    segments_copied_total: int = counter("segments copied and verified")
    copied_bytes_total: int = counter("bytes of these objects")
    failed_copies_total: int = counter("tries of a copy that failed")
    segments_restored_total: int = counter("segments written back to a ledger")
    deleted_objects_total: int = counter("objects deleted")
    reads_total: int = counter("ranged reads of readers")
    read_bytes_total: int = counter("bytes that these reads brought")
    corrupt_total: int = counter("objects, or blocks of them, that did not verify")
