"""Programs of KafkaJS: they run as they are, their package comes once by npm."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.fetched import CACHE, once, tool

_SOURCE: Final = Path(__file__).with_name("kafkajs")
_FILES: Final = ("package.json", "package-lock.json", ".npmrc", "main.js", "secured.js")


def kafkajs_program(name: str) -> list[str]:
    """Return the command of a program: "main", or "secured"."""
    node, npm = tool("node"), tool("npm")
    folder = CACHE / "kafkajs"
    with once(folder, b"".join((_SOURCE / name).read_bytes() for name in _FILES)) as todo:
        if todo:
            for each in _FILES:
                shutil.copy(_SOURCE / each, folder)
            done = subprocess.run(
                [npm, "ci"], cwd=folder, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
    return [node, str(folder / f"{name}.js")]
