"""Settings of cold storage: where it is, and how much of the machine copying to it may take."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tailrace.core.log.cold.file_systems import what_is_missing
from tailrace.core.runtime.config import Secret, setting
from tailrace.core.runtime.stored_json import NOT_JSON

_POSITIVE = ("block_bytes", "part_bytes", "uploads_max", "reads_max", "attempts", "timeout_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdConfig:
    """Cold storage of a process."""

    url: str = setting(
        "cold.storage.url",
        "",
        "Where completed log segments are copied to: a directory, or file://, s3://BUCKET/PATH"
        " (needs s3fs), hdfs://, whatever fsspec knows; empty: there is none",
    )
    options: Secret = setting(
        "cold.storage.options",
        Secret(""),
        "JSON object with the options of that file system in fsspec, such as"
        ' {"client_kwargs": {"endpoint_url": "http://host:9000"}}; empty: none. Shown nowhere, as'
        " it may have credentials; the environment (AWS_ACCESS_KEY_ID and its like) is the better"
        " place for them",
    )
    block_bytes: int = setting(
        "cold.block.bytes", 1024 * 1024, "Entries that have one checksum and are read together"
    )
    part_bytes: int = setting(
        "cold.part.bytes", 8 * 1024 * 1024, "Bytes of one part of an upload, held in memory"
    )
    uploads_max: int = setting("cold.uploads.max", 1, "Segments that are copied at once")
    upload_bytes_per_s: int = setting(
        "cold.upload.bytes.per.second", 0, "Bytes per second of all uploads together; 0: no limit"
    )
    reads_max: int = setting("cold.reads.max", 4, "Reads of cold storage at once, a thread each")
    attempts: int = setting(
        "cold.attempts.max", 3, "Tries of a read, and of a copy in one round, before it fails"
    )
    retry_pause_ms: int = setting(
        "cold.retry.pause.ms", 500, "Pause before the second try; it doubles with each, in ms"
    )
    timeout_ms: int = setting(
        "cold.request.timeout.ms", 60_000, "Time in which one request has to end, in ms"
    )

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} in cold.* must be at least 1")
        if min(self.upload_bytes_per_s, self.retry_pause_ms) < 0:
            raise ValueError("cold.upload.bytes.per.second and cold.retry.pause.ms: at least 0")
        if self.part_bytes < 5 * 1024 * 1024:
            raise ValueError("cold.part.bytes must be at least 5 MiB, as S3 has it")
        if self.block_bytes > 32 * 1024 * 1024:
            raise ValueError("cold.block.bytes must be at most 32 MiB")
        _ = self.storage_options
        if urlsplit(self.url).password is not None:
            raise ValueError(
                "cold.storage.url has a password, and is shown in logs: leave it out, and give it "
                "by the environment or in cold.storage.options"
            )
        if self.url and (missing := what_is_missing(self.url)):
            raise ValueError(f"cold.storage.url: {missing}")

    @property
    def storage_options(self) -> dict[str, Any]:
        """`options` as a value. Errors: ValueError."""
        try:
            found = json.loads(self.options.reveal() or "{}")
        except NOT_JSON:
            # Nor as its cause: an error of Python's has the text.
            raise ValueError("cold.storage.options is not JSON") from None
        if isinstance(found, dict):
            return found
        raise ValueError("cold.storage.options must be a JSON object")
